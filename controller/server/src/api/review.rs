//! Who am I, and may I (`kubectl auth whoami`, `auth can-i`): the answers follow from [`authenticate`] and nothing else.

use axum::body::Body;
use coracle_controller_core::ApiError;
use coracle_controller_core::discovery::computed::Computed;
use http::{HeaderMap, Response};
use serde_json::{Value, json};

use super::authenticate;
use super::body;
use super::respond;
use super::route::{Question, route};
use crate::keys::User;

/// Why somebody may not.
const NOT_A_MASTER: &str = "only members of system:masters may do this: there is no RBAC in this build";

/// Answers a review that a user has posted.
pub(super) fn review(
    user: &User,
    question: &Question,
    headers: &HeaderMap,
    bytes: &[u8],
) -> Result<Response<Body>, ApiError> {
    let info = question.what.info();
    let mut value = body::value(headers, bytes)?;
    body::fits(&question.what.api_version(), info.kind, &value)?;
    value["status"] = status(user, question, &value["spec"])?;
    for (field, text) in [("apiVersion", question.what.api_version()), ("kind", info.kind.to_owned())] {
        value[field] = text.into();
    }
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    Ok(respond::json(201, value))
}

fn status(user: &User, question: &Question, spec: &Value) -> Result<Value, ApiError> {
    match question.what {
        Computed::SelfSubjectReview => Ok(json!({"userInfo": {"username": user.name, "groups": user.groups}})),
        Computed::SelfSubjectAccessReview => access(&user.groups, spec),
        Computed::SubjectAccessReview => access(&subject(spec)?, spec),
        Computed::LocalSubjectAccessReview => {
            let namespace = question.namespace.as_deref().unwrap_or_default();
            if spec["resourceAttributes"]["namespace"] != namespace {
                return Err(ApiError::bad_request(format!(
                    "spec.resourceAttributes.namespace must match the namespace of the request, \"{namespace}\""
                )));
            }
            access(&subject(spec)?, spec)
        }
        Computed::SelfSubjectRulesReview => rules(user, spec),
        Computed::NodeMetrics | Computed::PodMetrics => Err(ApiError::method_not_allowed()),
    }
}

/// The groups of the one whom a review is about.
fn subject(spec: &Value) -> Result<Vec<String>, ApiError> {
    let groups = spec["groups"].as_array().into_iter().flatten();
    let groups: Vec<String> = groups.filter_map(|group| group.as_str().map(str::to_owned)).collect();
    if groups.is_empty() && spec["user"].as_str().unwrap_or_default().is_empty() {
        return Err(ApiError::bad_request("at least one of spec.user or spec.groups must be specified"));
    }
    Ok(groups)
}

/// `SubjectAccessReviewStatus`
fn access(groups: &[String], spec: &Value) -> Result<Value, ApiError> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if resource.is_object() == path.is_object() {
        return Err(ApiError::bad_request(
            "exactly one of spec.nonResourceAttributes or spec.resourceAttributes must be specified",
        ));
    }
    let reads = matches!(path["verb"].as_str(), Some("get" | "head"));
    let open = || authenticate::is_open(path["path"].as_str().and_then(route).as_ref());
    if authenticate::may_do_everything(groups) || (reads && open()) {
        Ok(json!({"allowed": true}))
    } else {
        Ok(json!({"allowed": false, "reason": NOT_A_MASTER}))
    }
}

/// `SubjectRulesReviewStatus`
fn rules(user: &User, spec: &Value) -> Result<Value, ApiError> {
    if spec["namespace"].as_str().unwrap_or_default().is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    if authenticate::may_do_everything(&user.groups) {
        return Ok(json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }));
    }
    Ok(json!({
        "resourceRules": [
            {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
            {
                "verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
                "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            },
        ],
        "nonResourceRules": [
            {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version"]},
        ],
        "incomplete": false,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(group: &str, what: Computed, spec: &Value) -> Result<Value, u16> {
        let user = User { name: "ann".to_owned(), groups: vec![group.to_owned()] };
        let question = Question { what, namespace: Some("d".to_owned()), name: None };
        status(&user, &question, spec).map_err(|error| error.code)
    }

    // API-01
    #[test]
    fn reviews_say_what_is_so() {
        let (masters, staff) = ("system:masters", "staff");
        let pods = json!({"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "d"}});
        let health = json!({"nonResourceAttributes": {"verb": "get", "path": "/healthz"}});
        let metrics = json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}});
        let of = |groups: &[&str], spec: &Value| {
            let mut spec = spec.clone();
            (spec["user"], spec["groups"]) = (json!("bob"), json!(groups));
            spec
        };
        let own = Computed::SelfSubjectAccessReview;
        for (group, what, spec, expected) in [
            (masters, own, pods.clone(), Ok(json!(true))),
            (staff, own, pods.clone(), Ok(json!(false))),
            (staff, own, health, Ok(json!(true))),
            (staff, own, metrics.clone(), Ok(json!(false))),
            (masters, own, metrics, Ok(json!(true))),
            (masters, own, json!({}), Err(400)),
            (masters, Computed::SubjectAccessReview, of(&[staff], &pods), Ok(json!(false))),
            (masters, Computed::SubjectAccessReview, of(&[masters], &pods), Ok(json!(true))),
            (masters, Computed::SubjectAccessReview, pods.clone(), Err(400)),
            (masters, Computed::LocalSubjectAccessReview, of(&[masters], &pods), Ok(json!(true))),
            (masters, Computed::LocalSubjectAccessReview, of(&[masters], &json!({"resourceAttributes": {}})), Err(400)),
        ] {
            let allowed = answer(group, what, &spec).map(|mut status| status["allowed"].take());
            assert_eq!(allowed, expected, "{group} {what:?} {spec}");
        }
        let who = answer(staff, Computed::SelfSubjectReview, &Value::Null);
        assert_eq!(who, Ok(json!({"userInfo": {"username": "ann", "groups": ["staff"]}})));
        let rules = |group| answer(group, Computed::SelfSubjectRulesReview, &json!({"namespace": "d"}));
        assert_eq!(rules(masters).map(|rules| rules["resourceRules"][0]["verbs"][0].clone()), Ok(json!("*")));
        assert_eq!(rules(staff).map(|rules| rules["resourceRules"][0]["verbs"][0].clone()), Ok(json!("create")));
        assert_eq!(answer(masters, Computed::SelfSubjectRulesReview, &json!({})), Err(400));
    }
}

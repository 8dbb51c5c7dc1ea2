//! Who asks, and whether they may. There is no RBAC in this build: members of `system:masters` may do everything, others
//! nothing.

use coracle_controller_core::ApiError;
use coracle_controller_core::discovery::computed::Computed;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method};

use super::route::{Route, Target};
use crate::keys::{Keys, User};

/// The group whose members may do everything.
const MASTERS: &str = "system:masters";

/// The user that a connection's certificate or a request's token names.
pub(super) fn user(keys: &Keys, certificate: Option<User>, headers: &HeaderMap) -> Result<User, ApiError> {
    if let Some(user) = certificate {
        return Ok(user);
    }
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token =
        header.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    token
        .filter(|(_, token)| keys.is_admin_token(token.trim()))
        .map(|_| keys.admin_user())
        .ok_or_else(ApiError::unauthorized)
}

/// Whether this may be asked without saying who one is.
pub(super) fn is_open(route: Option<&Route>) -> bool {
    matches!(route, Some(Route::Health | Route::Version))
}

/// Whether a user may do everything. Who may not, may only ask what is [open](is_open) or [about himself](is_own).
pub(super) fn may_do_everything(groups: &[String]) -> bool {
    groups.iter().any(|group| group == MASTERS)
}

/// Whether this asks who the user is and what he may do, which everybody may ask who has said who he is.
fn is_own(route: Option<&Route>) -> bool {
    let Some(Route::Computed(question)) = route else { return false };
    matches!(
        question.what,
        Computed::SelfSubjectReview | Computed::SelfSubjectAccessReview | Computed::SelfSubjectRulesReview
    )
}

/// Refuses whoever may not do this, in Kubernetes' words.
pub(super) fn authorize(user: &User, method: &Method, path: &str, route: Option<&Route>) -> Result<(), ApiError> {
    if may_do_everything(&user.groups) || is_own(route) {
        return Ok(());
    }
    if let Some(Route::Objects(target)) = route {
        let detail = refusal(user, method, target);
        return Err(ApiError::forbidden(target.kind, target.name.as_deref().unwrap_or_default(), &detail));
    }
    let mut error = ApiError::unauthorized();
    (error.code, error.reason) = (403, "Forbidden");
    error.message =
        format!("forbidden: User \"{}\" cannot {} path \"{path}\"", user.name, method.as_str().to_lowercase());
    Err(error)
}

fn refusal(user: &User, method: &Method, target: &Target) -> String {
    let info = target.kind.info();
    let verb = match (method.as_str(), target.name.is_some()) {
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        (_, true) => "get",
        (_, false) => "list",
    };
    let below = target.below.map(|below| format!("/{}", below.as_str())).unwrap_or_default();
    let scope = target
        .namespace
        .as_ref()
        .map_or_else(|| " at the cluster scope".to_owned(), |namespace| format!(" in the namespace \"{namespace}\""));
    format!(
        "User \"{}\" cannot {verb} resource \"{}{below}\" in API group \"{}\"{scope}",
        user.name, info.plural, info.group
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::route::route;

    #[test]
    fn only_masters_may_do_anything() {
        let user = |group: &str| User { name: "ann".to_owned(), groups: vec![group.to_owned()] };
        let path = "/api/v1/namespaces/d/pods/web/log";
        let found = route(path);
        assert_eq!(authorize(&user(MASTERS), &Method::GET, path, found.as_ref()), Ok(()));
        let error = authorize(&user("staff"), &Method::GET, path, found.as_ref()).expect_err("refused");
        let words = "pods \"web\" is forbidden: User \"ann\" cannot get resource \"pods/log\" in API group \"\" in the namespace \"d\"";
        assert_eq!((error.code, error.message.as_str()), (403, words));
        let error =
            authorize(&user("staff"), &Method::GET, "/metrics", route("/metrics").as_ref()).expect_err("refused");
        assert_eq!((error.code, error.message.as_str()), (403, "forbidden: User \"ann\" cannot get path \"/metrics\""));
        let own = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        assert_eq!(authorize(&user("staff"), &Method::POST, own, route(own).as_ref()), Ok(()));
        let other = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        assert!(authorize(&user("staff"), &Method::POST, other, route(other).as_ref()).is_err());
        assert!(is_open(route("/livez").as_ref()) && !is_open(route("/metrics").as_ref()) && !is_open(None));
    }
}

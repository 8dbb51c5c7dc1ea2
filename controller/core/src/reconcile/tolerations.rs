//! Which taints a pod tolerates, and for how long.

use serde::Deserialize;

use crate::rows::Taint;

/// One of `spec.tolerations`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Toleration {
    key: String,
    operator: String,
    value: String,
    effect: String,
    toleration_seconds: Option<i64>,
}

impl Toleration {
    /// A toleration of every value of a key, for ever.
    pub(super) fn exists(key: &str, effect: &str) -> Self {
        Self { key: key.to_owned(), operator: "Exists".to_owned(), effect: effect.to_owned(), ..Self::default() }
    }

    /// Whether it is about this taint.
    pub(super) fn tolerates(&self, taint: &Taint) -> bool {
        if (!self.effect.is_empty() && *self.effect != *taint.effect)
            || (!self.key.is_empty() && *self.key != *taint.key)
        {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => *self.value == *taint.value,
            "Exists" => true,
            operator => match (self.value.parse::<i64>(), taint.value.parse::<i64>()) {
                (Ok(limit), Ok(found)) if operator == "Gt" => found > limit,
                (Ok(limit), Ok(found)) if operator == "Lt" => found < limit,
                _ => false,
            },
        }
    }
}

/// How long a pod stays under a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stay {
    /// Not at all.
    No,
    /// This many seconds from when the taint was put there.
    Seconds(u64),
    /// For ever.
    Always,
}

/// How long a pod with these tolerations stays under this taint: what the first toleration that fits says.
pub(super) fn stay(tolerations: &[Toleration], taint: &Taint) -> Stay {
    match tolerations.iter().find(|toleration| toleration.tolerates(taint)) {
        None => Stay::No,
        Some(Toleration { toleration_seconds: None, .. }) => Stay::Always,
        // A negative number of seconds means at once.
        Some(Toleration { toleration_seconds: Some(seconds), .. }) => {
            Stay::Seconds(u64::try_from(*seconds).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_fitting_toleration_says_for_how_long() {
        let taint = |effect: &str, value: &str| Taint {
            key: "k".into(),
            value: value.into(),
            effect: effect.into(),
            added_ms: None,
        };
        for (tolerations, effect, expected) in [
            (json!([]), "NoExecute", Stay::No),
            (json!([{"key": "k", "operator": "Exists"}]), "NoExecute", Stay::Always),
            (json!([{"key": "k", "value": "v", "effect": "NoExecute"}]), "NoExecute", Stay::Always),
            (json!([{"key": "k", "value": "v", "effect": "NoExecute"}]), "NoSchedule", Stay::No),
            (json!([{"key": "k", "value": "w"}]), "NoExecute", Stay::No),
            (json!([{"operator": "Exists", "tolerationSeconds": 30}]), "NoExecute", Stay::Seconds(30)),
            (json!([{"operator": "Exists", "tolerationSeconds": -1}]), "NoExecute", Stay::Seconds(0)),
            (json!([{"key": "k", "operator": "Gt", "value": "1"}]), "NoExecute", Stay::No),
        ] {
            let read: Vec<Toleration> = serde_json::from_value(tolerations.clone()).expect("tolerations");
            assert_eq!(stay(&read, &taint(effect, "v")), expected, "{tolerations}");
        }
    }
}

//! What Kubernetes has and this build cannot do yet. It is refused with its path, so that nothing is ignored in
//! silence (POD-14). Who builds a feature takes its row out.

use serde_json::Value;

use super::at::{At, Causes, given, items, text};

/// Fields of a pod's spec: refused when they are given with anything in them.
const POD_FIELDS: &[(&str, &str)] = &[
    ("initContainers", "init containers are not in this build"),
    ("ephemeralContainers", "ephemeral containers are not in this build"),
    ("hostAliases", "host aliases are not in this build"),
    ("dnsConfig", "a DNS configuration of one's own is not in this build"),
    ("hostname", "a pod's host name is its own name in this build"),
    ("subdomain", "subdomains are not in this build"),
    ("hostnameOverride", "a pod's host name is its own name in this build"),
    ("runtimeClassName", "there is one runtime, so there are no runtime classes"),
    ("overhead", "a component has no overhead of a runtime class"),
    ("resourceClaims", "resource claims are not in this build"),
    ("resources", "resources of the whole pod are not in this build; set them for each container"),
    ("readinessGates", "readiness gates are not in this build"),
    ("schedulingGroup", "scheduling groups are not in this build"),
    ("activeDeadlineSeconds", "deadlines of pods are not in this build"),
];

/// Switches of a pod's spec: refused when they are on.
const POD_SWITCHES: &[(&str, &str)] = &[
    ("hostNetwork", "a pod's network lives inside its sandbox; remove the field or set it to false"),
    ("hostPID", "components are no processes; remove the field or set it to false"),
    ("hostIPC", "components are no processes; remove the field or set it to false"),
    ("shareProcessNamespace", "components are no processes; remove the field or set it to false"),
    ("setHostnameAsFQDN", "a pod's host name is its own name in this build; remove the field or set it to false"),
];

/// Fields of a container.
const CONTAINER_FIELDS: &[(&str, &str)] = &[
    ("livenessProbe", "probes are not in this build"),
    ("readinessProbe", "probes are not in this build"),
    ("startupProbe", "probes are not in this build"),
    ("lifecycle", "lifecycle hooks are not in this build"),
    ("volumeDevices", "block devices are not in this build"),
    ("restartPolicy", "a restart policy for one container is not in this build; use spec.restartPolicy"),
    ("restartPolicyRules", "restart rules for one container are not in this build; use spec.restartPolicy"),
];

/// Fields of a security context, a pod's or a container's.
const SECURITY_FIELDS: &[(&str, &str)] = &[
    ("runAsUser", "a component has no user id; runAsNonRoot: true is all that can be asked"),
    ("runAsGroup", "a component has no group id"),
    ("seLinuxOptions", "a component is confined by its sandbox, not by SELinux"),
    ("appArmorProfile", "a component is confined by its sandbox, not by AppArmor"),
    ("windowsOptions", "nodes do not run Windows"),
    ("fsGroup", "a component has no group id"),
    ("fsGroupChangePolicy", "a component has no group id"),
    ("supplementalGroups", "a component has no group id"),
    ("supplementalGroupsPolicy", "a component has no group id"),
    ("seLinuxChangePolicy", "a component is confined by its sandbox, not by SELinux"),
    ("sysctls", "a component has no kernel of its own"),
];

/// Switches of a container's security context.
const SECURITY_SWITCHES: &[(&str, &str)] = &[
    ("privileged", "there are no privileged components; remove the field or set it to false"),
    ("allowPrivilegeEscalation", "a component cannot gain privileges; remove the field or set it to false"),
];

/// Refuses fields of a pod's spec.
pub(super) fn refuse_pod(spec: &Value, at: &At<'_>, causes: &mut Causes) {
    refuse(spec, POD_FIELDS, POD_SWITCHES, at, causes);
    security(&spec["securityContext"], &at.field("securityContext"), causes);
    let os = at.field("os");
    if given(&spec["os"]) && text(&spec["os"], "name") != "linux" {
        causes.push(os.field("name").not_supported(&spec["os"]["name"], &["linux"]));
    }
}

/// Refuses fields of a container.
pub(super) fn refuse_container(container: &Value, at: &At<'_>, causes: &mut Causes) {
    let switches = [("tty", "terminals are not in this build; remove the field or set it to false")];
    refuse(container, CONTAINER_FIELDS, &switches, at, causes);
    security(&container["securityContext"], &at.field("securityContext"), causes);
    for (index, port) in items(&container["ports"]) {
        let address = text(port, "hostIP");
        if !matches!(address, "" | "0.0.0.0" | "::") {
            let at = at.field("ports");
            let detail = "a host port on one address is not in this build; remove the field";
            causes.push(at.item(index).field("hostIP").forbidden(detail));
        }
    }
}

fn security(context: &Value, at: &At<'_>, causes: &mut Causes) {
    if context.is_null() {
        return;
    }
    refuse(context, SECURITY_FIELDS, SECURITY_SWITCHES, at, causes);
    if given(&context["capabilities"]["add"]) {
        let detail = "a component has the capabilities that its pod states and no others; only drop may be given";
        causes.push(at.field("capabilities").field("add").forbidden(detail));
    }
    let profile = &context["seccompProfile"]["type"];
    if given(profile) && profile != "RuntimeDefault" {
        let at = at.field("seccompProfile");
        causes.push(at.field("type").forbidden("a component makes no system calls of its own; use RuntimeDefault"));
    }
    let mount = &context["procMount"];
    if given(mount) && mount != "Default" {
        causes.push(at.field("procMount").forbidden("a component has no /proc; use Default"));
    }
}

fn refuse(value: &Value, fields: &[(&str, &str)], switches: &[(&str, &str)], at: &At<'_>, causes: &mut Causes) {
    for (field, detail) in fields {
        match &value[*field] {
            // A list is refused where it begins.
            Value::Array(items) if !items.is_empty() => causes.push(at.field(field).item(0).forbidden(detail)),
            found if given(found) => causes.push(at.field(field).forbidden(detail)),
            _ => {}
        }
    }
    for (field, detail) in switches {
        if value[*field] == true {
            causes.push(at.field(field).forbidden(detail));
        }
    }
}

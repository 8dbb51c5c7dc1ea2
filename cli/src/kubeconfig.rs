//! Finds and reads a kubeconfig, as kubectl does: `--kubeconfig`, `$KUBECONFIG`, `~/.kube/config`.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use coracle_controller_core::manifest;
use serde_json::Value;

/// What is needed to talk to an API server.
#[derive(Debug)]
pub(crate) struct Kubeconfig {
    /// `https://host:port`
    pub(crate) server: String,
    /// The certificates that the server's is checked against, in PEM.
    pub(crate) authority: Vec<u8>,
    /// Certificate and key of the user, in PEM.
    pub(crate) certificate: Option<(Vec<u8>, Vec<u8>)>,
    /// The user's token.
    pub(crate) token: Option<String>,
}

/// Reads the current context of the kubeconfig.
///
/// # Errors
/// When there is none, or a field is missing: the text names file and field.
pub(crate) fn find(given: Option<&Path>) -> Result<Kubeconfig, String> {
    let path = path(given)?;
    let shown = path.display();
    let bytes = std::fs::read(&path).map_err(|error| format!("failed to read the kubeconfig {shown}: {error}"))?;
    let documents = manifest::parse(&bytes).map_err(|error| format!("{shown}: {error}"))?;
    let config = documents.into_iter().next().ok_or_else(|| format!("{shown} is empty"))?.value;
    let context = config["current-context"].as_str().unwrap_or_default();
    let named = |list: &str, name: &str, field: &str| -> Result<Value, String> {
        let entries = config[list].as_array().into_iter().flatten();
        let entry = entries.into_iter().find(|entry| entry["name"] == name);
        entry.map(|entry| entry[field].clone()).ok_or_else(|| format!("{shown}: {list} has no \"{name}\""))
    };
    let context = named("contexts", context, "context")?;
    let cluster = named("clusters", context["cluster"].as_str().unwrap_or_default(), "cluster")?;
    let user = named("users", context["user"].as_str().unwrap_or_default(), "user")?;
    let server = cluster["server"].as_str().ok_or_else(|| format!("{shown}: clusters[].cluster.server is missing"))?;
    let authority = data(&cluster, "certificate-authority", &path)?
        .ok_or_else(|| format!("{shown}: clusters[].cluster.certificate-authority-data is missing"))?;
    let certificate = match (data(&user, "client-certificate", &path)?, data(&user, "client-key", &path)?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        _ => None,
    };
    let token = user["token"].as_str().map(ToOwned::to_owned);
    Ok(Kubeconfig { server: server.to_owned(), authority, certificate, token })
}

fn path(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    if let Some(paths) = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty()) {
        return std::env::split_paths(&paths).next().ok_or_else(|| "$KUBECONFIG is empty".to_owned());
    }
    let home = std::env::var_os("HOME").ok_or("no kubeconfig: give --kubeconfig FILE, or set $KUBECONFIG")?;
    Ok(Path::new(&home).join(".kube").join("config"))
}

/// `FIELD-data` in base64, or the file that `FIELD` names.
fn data(entry: &Value, field: &str, kubeconfig: &Path) -> Result<Option<Vec<u8>>, String> {
    if let Some(text) = entry[format!("{field}-data")].as_str() {
        let decoded = base64::engine::general_purpose::STANDARD.decode(text);
        return decoded.map(Some).map_err(|error| format!("{}: {field}-data: {error}", kubeconfig.display()));
    }
    let Some(file) = entry[field].as_str() else { return Ok(None) };
    let file = kubeconfig.parent().unwrap_or(Path::new("")).join(file);
    std::fs::read(&file).map(Some).map_err(|error| format!("failed to read {}: {error}", file.display()))
}

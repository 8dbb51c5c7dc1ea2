//! What `coracle up` shows: progress, tables, and what to try next.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::time::Duration;

use coracle_controller::server::Running;
use coracle_controller_core::{Kind, View};
use indicatif::{ProgressBar, ProgressStyle};

/// How far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    nodes_ready: usize,
    nodes_wanted: usize,
    pods_ready: usize,
    pods_wanted: usize,
}

impl State {
    /// Counts nodes and pods; the sample wants three pages, and a sensor on every node.
    pub(super) fn of(view: &View, nodes: u16) -> Self {
        let ready_nodes = view.list(Kind::NODE, None).filter(|node| node.row.node().is_some_and(|row| row.ready));
        let pods = || view.list(Kind::POD, Some("default")).filter(|pod| !pod.is_deleting());
        Self {
            nodes_ready: ready_nodes.count(),
            nodes_wanted: usize::from(nodes),
            pods_ready: pods().filter(|pod| pod.row.pod().is_some_and(|row| row.is_ready())).count(),
            pods_wanted: pods().count().max(usize::from(nodes) + 3),
        }
    }

    /// Every node is Ready.
    pub(super) const fn has_nodes(self) -> bool {
        self.nodes_ready >= self.nodes_wanted
    }

    /// Everything is Running and Ready.
    pub(super) const fn is_ready(self) -> bool {
        self.has_nodes() && self.pods_ready >= self.pods_wanted
    }
}

/// A line that moves on a terminal, and nothing where there is none.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(super) fn new() -> Self {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        bar.set_style(ProgressStyle::default_spinner());
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { bar }
    }

    pub(super) fn show(&self, state: &State) {
        let State { nodes_ready, nodes_wanted, pods_ready, pods_wanted } = state;
        self.bar
            .set_message(format!("nodes {nodes_ready}/{nodes_wanted} ready, pods {pods_ready}/{pods_wanted} ready"));
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Nodes and pods, in the columns of `kubectl get`.
pub(super) fn tables(view: &View) -> String {
    let mut nodes = vec![["NAME", "STATUS", "ZONE", "ARCH", ""].map(ToOwned::to_owned)];
    for node in view.list(Kind::NODE, None) {
        let label = |name: &str| node.labels.get(name).map(ToString::to_string).unwrap_or_default();
        let ready = node.row.node().is_some_and(|row| row.ready);
        nodes.push([
            node.name().to_owned(),
            if ready { "Ready" } else { "NotReady" }.to_owned(),
            label("topology.kubernetes.io/zone"),
            label("kubernetes.io/arch"),
            String::new(),
        ]);
    }
    let mut pods = vec![["NAME", "READY", "STATUS", "RESTARTS", "NODE"].map(ToOwned::to_owned)];
    for pod in view.list(Kind::POD, Some("default")) {
        let Some(row) = pod.row.pod() else { continue };
        pods.push([
            pod.name().to_owned(),
            if row.is_ready() { "1/1" } else { "0/1" }.to_owned(),
            row.phase.as_str().to_owned(),
            row.restarts.to_string(),
            row.node.as_deref().unwrap_or("<none>").to_owned(),
        ]);
    }
    format!("{}\n{}", layout(&nodes), layout(&pods))
}

fn layout(rows: &[[String; 5]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("   ").trim_end());
        text.push('\n');
    }
    text
}

/// Where the API is, and three things to try.
pub(super) fn next_steps(running: &Running) -> String {
    let mut text = String::new();
    let kubeconfig = running.kubeconfig.display();
    let page = running.cluster.read(|view| {
        let pods = view.list(Kind::POD, Some("default"));
        pods.map(|pod| pod.name().to_owned()).find(|name| name.starts_with("hello-")).unwrap_or_default()
    });
    // Writing into a string cannot fail.
    let _ = write!(
        text,
        "\nAPI         https://{api}\nbroker      {broker}\nkubeconfig  {kubeconfig}\n\nTry next, in another terminal:\n  \
         export KUBECONFIG={kubeconfig}\n  \
         kubectl get pods -o wide\n  \
         kubectl get --raw /api/v1/namespaces/default/pods/{page}:8080/proxy/\n  \
         kubectl set image deployment/hello hello=samples/hello:2 && kubectl rollout status deployment/hello\n\n\
         Ctrl-C stops everything; the next start goes on where this one ended.\n",
        api = running.api,
        broker = running.broker,
    );
    text
}

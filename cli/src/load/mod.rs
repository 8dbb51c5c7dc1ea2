//! `coracle load`: what many users at once ask of a controller, and how fast its nodes come to run it.
//!
//! Clients create pods, or deployments of them, over connections of their own; one watch sees when each pod is there,
//! bound to a node, Running, and gone again. A watch shows what is durable and nothing else.

mod watch;

use std::cell::RefCell;
use std::collections::HashMap;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Method;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::LocalSet;
use tokio::time::{Instant, timeout_at};

use crate::arguments::Load;
use crate::client::Client;
use crate::kubeconfig::Kubeconfig;
use crate::{Failure, Outcome, kubeconfig};

/// The label by which the watch knows what is of this load.
const LABEL: &str = "coracle.dev/load";
/// How long a client that was told to come back later stays away.
const BUSY: Duration = Duration::from_millis(20);

/// Runs the load, prints its figures, and takes away what it made.
pub(crate) fn run(options: &Load) -> Outcome {
    let config = kubeconfig::find(options.kubeconfig.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let figures = LocalSet::new().block_on(&runtime, load(options, config))?;
    if options.json {
        println!("{figures}");
    } else if let Value::Object(figures) = figures {
        for (name, value) in figures {
            println!("{name:>20}  {value}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is known of the pods of this load.
#[derive(Debug, Default)]
struct Pods {
    seen: HashMap<String, Seen>,
    answered: Vec<Duration>,
    running: usize,
    gone: usize,
    busy: usize,
    relists: usize,
}

/// One pod, in times since the load began.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The request was sent; for a pod of a deployment, the watch showed it.
    created: Duration,
    /// It has a node.
    bound: Option<Duration>,
    running: Option<Duration>,
    is_gone: bool,
}

impl Seen {
    const fn new(created: Duration) -> Self {
        Self { created, bound: None, running: None, is_gone: false }
    }
}

/// What clients and watch share; all of it on one thread.
struct Shared {
    config: Kubeconfig,
    options: Load,
    started: Instant,
    pods: RefCell<Pods>,
    moved: Notify,
}

async fn load(options: &Load, config: Kubeconfig) -> Result<Value, Failure> {
    let started = Instant::now();
    let shared =
        Rc::new(Shared { config, options: options.clone(), started, pods: RefCell::default(), moved: Notify::new() });
    let watch = tokio::task::spawn_local(watch::follow(Rc::clone(&shared)));
    let deadline = Instant::now() + Duration::from_secs(options.timeout);

    let begin = shared.started.elapsed();
    create(&shared).await?;
    let created = shared.started.elapsed();
    shared.until("Running", deadline, |pods| pods.running).await?;
    let mut figures = shared.figures(begin, created);
    if !options.keep {
        let begin = shared.started.elapsed();
        delete(&shared).await?;
        shared.until("gone", deadline, |pods| pods.gone).await?;
        let seconds = (shared.started.elapsed() - begin).as_secs_f64();
        figures["goneAfterSeconds"] = json!(seconds);
    }
    watch.abort();
    Ok(figures)
}

fn pods_path(options: &Load) -> String {
    format!("/api/v1/namespaces/{}/pods", options.namespace)
}

fn deployments_path(options: &Load) -> String {
    format!("/apis/apps/v1/namespaces/{}/deployments", options.namespace)
}

impl Shared {
    /// Waits until all pods have come so far.
    async fn until(&self, what: &str, deadline: Instant, count: impl Fn(&Pods) -> usize) -> Result<(), Failure> {
        let wanted = self.options.pods as usize;
        loop {
            let moved = self.moved.notified();
            let found = count(&self.pods.borrow());
            if found >= wanted {
                return Ok(());
            }
            if timeout_at(deadline, moved).await.is_err() {
                return Err(format!("{found} of {wanted} pods are {what} after {} s", self.options.timeout).into());
            }
        }
    }

    /// What was measured since `begin`; the last request was answered at `created`.
    fn figures(&self, begin: Duration, created: Duration) -> Value {
        let mut pods = self.pods.borrow_mut();
        let mut bound = Stage::of(&pods, begin, |seen| seen.bound);
        let mut running = Stage::of(&pods, begin, |seen| seen.running);
        let (count, busy, relists) = (self.options.pods, pods.busy, pods.relists);
        let creating = (created - begin).as_secs_f64();
        let answered = &mut pods.answered;
        json!({
            "pods": count,
            "clients": self.options.clients,
            "deployments": self.options.deployments,
            "seconds": running.seconds,
            "podsPerSecond": f64::from(count) / running.seconds,
            "boundSeconds": bound.seconds,
            "boundPerSecond": f64::from(count) / bound.seconds,
            "creatingSeconds": creating,
            "busyAnswers": busy,
            "relists": relists,
            "answeredP50Ms": percentile(answered, 50),
            "answeredP99Ms": percentile(answered, 99),
            "boundP50Ms": percentile(&mut bound.waits, 50),
            "boundP99Ms": percentile(&mut bound.waits, 99),
            "runningP50Ms": percentile(&mut running.waits, 50),
            "runningP99Ms": percentile(&mut running.waits, 99),
            "runningMaxMs": percentile(&mut running.waits, 100),
        })
    }
}

/// What all pods come to on their way.
struct Stage {
    /// From the first request until the last pod was there.
    seconds: f64,
    /// How long each pod took from its request.
    waits: Vec<Duration>,
}

impl Stage {
    fn of(pods: &Pods, begin: Duration, reached: impl Fn(&Seen) -> Option<Duration>) -> Self {
        let last = pods.seen.values().filter_map(&reached).max().unwrap_or(begin);
        let waits = pods.seen.values().filter_map(|seen| Some(reached(seen)?.saturating_sub(seen.created)));
        Self { seconds: (last - begin).as_secs_f64(), waits: waits.collect() }
    }
}

/// The value that so many of a hundred do not exceed, in milliseconds.
fn percentile(values: &mut [Duration], percent: usize) -> f64 {
    values.sort_unstable();
    let last = values.len().saturating_sub(1);
    values.get(last * percent / 100).map_or(0.0, |value| value.as_secs_f64() * 1000.0)
}

/// Every client takes its share, one request after another.
async fn create(shared: &Rc<Shared>) -> Result<(), Failure> {
    let options = &shared.options;
    let (pods, deployments) = (options.pods, options.deployments);
    if deployments == 0 {
        let bodies = (1..=pods).map(|number| {
            let name = format!("{}-{number:06}", options.name_prefix);
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "labels": {LABEL: options.name_prefix}},
                "spec": spec(options),
            });
            (Some(name), Method::POST, pods_path(options), pod.to_string())
        });
        return share(shared, bodies.collect()).await;
    }
    let bodies = (0..deployments).map(|number| {
        let name = format!("{}-{number}", options.name_prefix);
        let labels = json!({LABEL: options.name_prefix, "app": name});
        let replicas = pods / deployments + u32::from(number < pods % deployments);
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec(options)},
            },
        });
        (None, Method::POST, deployments_path(options), deployment.to_string())
    });
    share(shared, bodies.collect()).await
}

fn spec(options: &Load) -> Value {
    json!({
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": options.image}],
    })
}

async fn delete(shared: &Rc<Shared>) -> Result<(), Failure> {
    let options = &shared.options;
    let requests = if options.deployments == 0 {
        let names = (1..=options.pods).map(|number| format!("{}-{number:06}", options.name_prefix));
        names.map(|name| (None, Method::DELETE, format!("{}/{name}", pods_path(options)), String::new())).collect()
    } else {
        let names = (0..options.deployments).map(|number| format!("{}-{number}", options.name_prefix));
        let path = |name| format!("{}/{name}?propagationPolicy=Background", deployments_path(options));
        names.map(|name| (None, Method::DELETE, path(name), String::new())).collect()
    };
    share(shared, requests).await
}

/// The pod that the request creates, its method, path and body.
type Wish = (Option<String>, Method, String, String);

async fn share(shared: &Rc<Shared>, mut requests: Vec<Wish>) -> Result<(), Failure> {
    requests.reverse();
    let requests = Rc::new(RefCell::new(requests));
    let clients: Vec<_> = (0..shared.options.clients)
        .map(|_| tokio::task::spawn_local(serve(Rc::clone(shared), Rc::clone(&requests))))
        .collect();
    for client in clients {
        client.await??;
    }
    Ok(())
}

/// One client.
async fn serve(shared: Rc<Shared>, requests: Rc<RefCell<Vec<Wish>>>) -> Result<(), Failure> {
    let mut client = Client::connect(&shared.config).await?;
    loop {
        let Some((name, method, path, body)) = requests.borrow_mut().pop() else { return Ok(()) };
        let began = shared.started.elapsed();
        if let Some(name) = name {
            shared.pods.borrow_mut().seen.insert(name, Seen::new(began));
        }
        loop {
            match client.ask(method.clone(), &path, "application/json", body.clone().into_bytes()).await {
                Ok(answer) => {
                    answer.into_body().collect().await?;
                    break;
                }
                Err(error) if error.to_string().contains("too many requests") => {
                    shared.pods.borrow_mut().busy += 1;
                    tokio::time::sleep(BUSY).await;
                }
                Err(error) => return Err(format!("failed to {method} {path}: {error}").into()),
            }
        }
        if method == Method::POST {
            shared.pods.borrow_mut().answered.push(shared.started.elapsed() - began);
        }
    }
}

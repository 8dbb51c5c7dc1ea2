use serde_json::{Value, json};

use super::{Configuration, DefaultSpread, Preference, Profile, parse};

fn file(fields: Value) -> Vec<u8> {
    let mut file = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"});
    for (field, value) in fields.as_object().unwrap() {
        file[field] = value.clone();
    }
    file.to_string().into_bytes()
}

fn one(profile: Value) -> Profile {
    let found = parse(&file(json!({"profiles": [profile]}))).unwrap();
    found.profiles.into_iter().next().unwrap()
}

#[test]
fn a_file_that_says_nothing_is_as_no_file_and_has_kubernetes_weights() {
    // SCH-02
    assert_eq!(parse(&file(json!({}))), Ok(Configuration::default()));
    assert_eq!(parse(&file(json!({"profiles": [{}]}))), Ok(Configuration::default()));
    let profile = Profile::new("default-scheduler");
    for (score, weight) in [
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodeResourcesFit", 1),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("NodeResourcesBalancedAllocation", 1),
    ] {
        assert_eq!(profile.scores.get(score), Some(&weight), "{score}");
    }
}

#[test]
fn the_example_of_the_manual_is_read() {
    let manual = include_str!("../../../../../docs/scheduler-configuration.md");
    let (_, rest) = manual.split_once("```yaml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let found = parse(example.as_bytes()).unwrap();
    assert_eq!((found.initial_back_off_ms, found.most_back_off_ms), (1_000, 30_000));
    let [first, batch] = &found.profiles[..] else { panic!("{found:?}") };
    assert_eq!((&*first.scheduler_name, &*batch.scheduler_name), ("default-scheduler", "batch"));
    assert_eq!((first.preempts, batch.preempts), (true, false));
    assert_eq!(first.scores["PodTopologySpread"], 5);
    assert!(!first.scores.contains_key("NodeResourcesBalancedAllocation"));
    assert_eq!(first.hard_pod_affinity_weight, 10);
    assert!(matches!(&first.default_spread, DefaultSpread::List(constraints) if constraints.len() == 1));
    assert!(!batch.filters.contains("InterPodAffinity") && !batch.scores.contains_key("InterPodAffinity"));
    assert_eq!(batch.scoring_strategy.preference, Preference::MostAllocated);
    assert_eq!(batch.scoring_strategy.resources, [("cpu".to_owned(), 3), ("memory".to_owned(), 1)]);
    assert!(batch.added_affinity.is_object());
}

#[test]
fn what_has_no_meaning_here_is_read_all_the_same() {
    let fields = json!({
        "parallelism": 16, "leaderElection": {"leaderElect": true, "leaseDuration": "15s", "resourceLock": "leases"},
        "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf", "qps": 50, "burst": 100},
        "enableProfiling": true, "enableContentionProfiling": true, "percentageOfNodesToScore": 0, "extenders": [],
        "delayCacheUntilActive": false, "podInitialBackoffSeconds": null,
        "profiles": [{"percentageOfNodesToScore": 50, "plugins": {"filter": {"disabled": [{"name": "NodeVolumeLimits"}]}},
            "pluginConfig": [
                {"name": "DefaultPreemption", "args": {"apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "DefaultPreemptionArgs", "minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100}},
                {"name": "NodeResourcesBalancedAllocation", "args": {"resources": [{"name": "memory"}, {"name": "cpu", "weight": 1}]}},
                {"name": "NodeResourcesFit", "args": {"ignoredResources": [], "scoringStrategy": {"type": "LeastAllocated",
                    "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]}}},
                {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 600}},
                {"name": "PodTopologySpread"}, {"name": "NodeAffinity", "args": null}]}],
    });
    assert_eq!(parse(&file(fields)), Ok(Configuration::default()));
}

#[test]
fn plugins_are_on_and_off_as_kubernetes_merges_them() {
    let scores = |plugins: Value| one(json!({"plugins": plugins})).scores;
    let only = |point: &str, names: &[&str]| {
        let enabled: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        let mut plugins = json!({"preScore": {"disabled": [{"name": "*"}]}});
        plugins[point] = json!({"disabled": [{"name": "*"}], "enabled": enabled});
        plugins
    };
    // Everything else off; a weight that is not stated is 1 then, as in Kubernetes.
    assert_eq!(scores(only("score", &["ImageLocality"])).keys().filter(|name| **name != "ImageLocality").count(), 0);
    let stated = json!({"score": {"enabled": [{"name": "TaintToleration"}, {"name": "NodeAffinity", "weight": 7}]}});
    let stated = scores(stated);
    assert_eq!((stated["TaintToleration"], stated["NodeAffinity"], stated["PodTopologySpread"]), (1, 7, 2));
    // The single extension point wins over multiPoint, and what is enabled over what is disabled.
    let both = scores(json!({
        "multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 9}, {"name": "NodeResourcesFit", "weight": 8}]},
        "score": {"enabled": [{"name": "NodeAffinity", "weight": 4}], "disabled": [{"name": "NodeAffinity"}]},
    }));
    assert_eq!((both["NodeAffinity"], both["NodeResourcesFit"]), (4, 8));
    let off =
        scores(json!({"score": {"disabled": [{"name": "*"}]}, "multiPoint": {"enabled": [{"name": "NodeAffinity"}]}}));
    assert!(off.is_empty());
    let few = one(json!({"plugins": {"multiPoint": {"disabled": [{"name": "*"}],
        "enabled": [{"name": "PrioritySort"}, {"name": "DefaultBinder"}, {"name": "NodeResourcesFit", "weight": 5}]}}}));
    assert_eq!(few.filters.iter().copied().collect::<Vec<_>>(), ["NodeResourcesFit"]);
    assert_eq!(few.scores.into_iter().collect::<Vec<_>>(), [("NodeResourcesFit", 5)]);
    assert!(!few.preempts);
    // One extension point alone.
    let filters = one(json!({"plugins": {"filter": {"disabled": [{"name": "TaintToleration"}]}}}));
    assert!(!filters.filters.contains("TaintToleration") && filters.scores.contains_key("TaintToleration"));
}

#[test]
fn preemption_is_switched_off_in_three_ways() {
    // PRI-10
    let off = |fields: Value| !parse(&file(fields)).unwrap().profiles[0].preempts;
    assert!(off(json!({"disablePreemption": true})));
    assert!(off(json!({"profiles": [{"disablePreemption": true}]})));
    assert!(off(json!({"profiles": [{"plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}}]})));
    assert!(off(json!({"disablePreemption": true, "profiles": [{"disablePreemption": false}]})));
    assert!(!off(json!({"disablePreemption": false, "profiles": [{"disablePreemption": false}]})));
}

/// Each bad file, with all that is said of it.
fn refused(cases: Vec<(Value, &str)>) {
    for (fields, want) in cases {
        assert_eq!(parse(&file(fields.clone())).unwrap_err().to_string(), want, "{fields}");
    }
}

#[test]
fn bad_files_are_refused_with_the_field_what_was_found_and_what_is_right() {
    refused(vec![
        (
            json!({"apiVersion": "kubescheduler.config.k8s.io/v1beta3", "kind": "KubeSchedulerConfig"}),
            "apiVersion: Unsupported value: \"kubescheduler.config.k8s.io/v1beta3\": supported values: \
             \"kubescheduler.config.k8s.io/v1\"; kind: Unsupported value: \"KubeSchedulerConfig\": supported values: \
             \"KubeSchedulerConfiguration\"",
        ),
        (json!({"profiles": "all"}), "profiles: invalid type: string \"all\", expected a sequence"),
        (json!({"profiles": [["batch", null, null, null, true]]}), "profiles[0]: found a list, want an object"),
        (
            json!({"profiles": [{"schedulerNam": "x"}]}),
            "profiles[0].schedulerNam: unknown field `schedulerNam`, expected one of `schedulerName`, \
             `percentageOfNodesToScore`, `plugins`, `pluginConfig`, `disablePreemption`",
        ),
        (
            json!({"leaderElection": {"leaderElected": true}}),
            "leaderElection.leaderElected: unknown field `leaderElected`, expected one of `leaderElect`, `leaseDuration`, \
             `renewDeadline`, `retryPeriod`, `resourceLock`, `resourceName`, `resourceNamespace`",
        ),
        (
            json!({"profiles": [{"plugins": {"score": {"enabled": [{"name": "NodeAffinity", "weight": "2"}]}}}]}),
            "profiles[0].plugins.score.enabled[0].weight: invalid type: string \"2\", expected i64",
        ),
        (
            json!({"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}, {}]}),
            "profiles[1].schedulerName: Duplicate value: \"a\"; profiles[2].schedulerName: Required value: each of several \
             profiles needs a name of its own",
        ),
        (
            json!({"extenders": [{"urlPrefix": "http://example.com"}]}),
            "extenders: Forbidden: there are no extenders here: the scheduler asks nobody outside of its process",
        ),
        (
            json!({"parallelism": 0, "percentageOfNodesToScore": 101, "podInitialBackoffSeconds": 0,
                "podMaxBackoffSeconds": -1}),
            "parallelism: Invalid value: 0: must be in the range 1-9223372036854775807; percentageOfNodesToScore: Invalid \
             value: 101: must be in the range 0-100; podInitialBackoffSeconds: Invalid value: 0: must be in the range \
             1-31536000; podMaxBackoffSeconds: Invalid value: -1: must be in the range 1-31536000; podMaxBackoffSeconds: \
             Invalid value: -1: must be greater than or equal to podInitialBackoffSeconds (0)",
        ),
    ]);
    for (text, want) in [
        (": [", "document 1, line 1, column 1: "),
        ("", "found 0 documents, want one KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1"),
        (
            "a: 1\n---\nb: 2\n",
            "found 2 documents, want one KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1",
        ),
        ("a: 1\na: 2\n", "document 1, line 2, column 1: "),
    ] {
        let found = parse(text.as_bytes()).unwrap_err().to_string();
        assert!(found.starts_with(want), "{text}: {found}");
    }
}

const PLUGINS: &str = "\"SchedulingGates\", \"PrioritySort\", \"NodeUnschedulable\", \"NodeName\", \"TaintToleration\", \
     \"NodeAffinity\", \"NodePorts\", \"NodeResourcesFit\", \"VolumeRestrictions\", \"NodeVolumeLimits\", \"VolumeBinding\", \
     \"VolumeZone\", \"PodTopologySpread\", \"InterPodAffinity\", \"DefaultPreemption\", \"NodeResourcesBalancedAllocation\", \
     \"ImageLocality\", \"DefaultBinder\"";

#[test]
fn bad_plugins_are_refused() {
    let plugins = |plugins: Value| json!({"profiles": [{"plugins": plugins}]});
    let unknown = format!(
        "profiles[0].plugins.filter.enabled[0].name: Unsupported value: \"NodeColour\": supported values: {PLUGINS}"
    );
    let off = format!(
        "profiles[0].plugins.multiPoint.disabled[0].name: Unsupported value: \"NodeColour\": supported values: {PLUGINS}, \"*\""
    );
    let all = format!(
        "profiles[0].plugins.multiPoint.enabled[0].name: Unsupported value: \"*\": supported values: {PLUGINS}"
    );
    refused(vec![
        (plugins(json!({"filter": {"enabled": [{"name": "NodeColour"}]}})), &unknown),
        (plugins(json!({"multiPoint": {"disabled": [{"name": "NodeColour"}]}})), &off),
        (plugins(json!({"multiPoint": {"enabled": [{"name": "*"}]}})), &all),
        (
            plugins(json!({"score": {"enabled": [{"name": "NodeName"}]}})),
            "profiles[0].plugins.score.enabled[0].name: Invalid value: \"NodeName\": is no plugin for score, only for filter",
        ),
        (
            plugins(json!({"score": {"enabled": [{"name": "NodeAffinity", "weight": 101}]},
                "multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": -1}]}})),
            "profiles[0].plugins.score.enabled[0].weight: Invalid value: 101: must be in the range 0-100; \
             profiles[0].plugins.multiPoint.enabled[0].weight: Invalid value: -1: must be in the range 0-100",
        ),
        (
            plugins(json!({"score": {"enabled": [{"name": "NodeAffinity"}, {"name": "NodeAffinity"}]}})),
            "profiles[0].plugins.score.enabled[1].name: Duplicate value: \"NodeAffinity\"",
        ),
        (
            plugins(json!({"multiPoint": {"disabled": [{"name": "*"}]}})),
            "profiles[0].plugins.queueSort: Required value: PrioritySort must be enabled, there is no other plugin for \
             queueSort; profiles[0].plugins.bind: Required value: DefaultBinder must be enabled, there is no other plugin \
             for bind",
        ),
        (
            plugins(json!({"preFilter": {"disabled": [{"name": "NodePorts"}]}})),
            "profiles[0].plugins.preFilter: Forbidden: NodePorts needs its preFilter for its filter; disable both, or none",
        ),
        (
            plugins(json!({"filters": {}})),
            "profiles[0].plugins.filters: unknown field `filters`, expected one of `preEnqueue`, `queueSort`, `preFilter`, \
             `filter`, `postFilter`, `preScore`, `score`, `reserve`, `permit`, `preBind`, `bind`, `postBind`, `multiPoint`",
        ),
    ]);
}

#[test]
fn bad_arguments_are_refused() {
    let given = |name: &str, args: Value| json!({"profiles": [{"pluginConfig": [{"name": name, "args": args}]}]});
    let args = "profiles[0].pluginConfig[0].args";
    let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"});
    let list = |change: &dyn Fn(&mut Value)| {
        let mut changed = constraint.clone();
        change(&mut changed);
        given("PodTopologySpread", json!({"defaultingType": "List", "defaultConstraints": [changed]}))
    };
    let at = format!("{args}.defaultConstraints[0]");
    let cases = vec![
        (
            given("NodeName", json!({})),
            "profiles[0].pluginConfig[0].name: Unsupported value: \"NodeName\": supported values: \"DefaultPreemption\", \
             \"InterPodAffinity\", \"NodeAffinity\", \"NodeResourcesBalancedAllocation\", \"NodeResourcesFit\", \
             \"PodTopologySpread\", \"VolumeBinding\""
                .to_owned(),
        ),
        (
            json!({"profiles": [{"pluginConfig": [{"name": "NodeAffinity"}, {"name": "NodeAffinity"}]}]}),
            "profiles[0].pluginConfig[1].name: Duplicate value: \"NodeAffinity\"".to_owned(),
        ),
        (
            given("InterPodAffinity", json!({"kind": "NodeAffinityArgs", "hardPodAffinityWeight": 101})),
            format!(
                "{args}.kind: Unsupported value: \"NodeAffinityArgs\": supported values: \"InterPodAffinityArgs\"; \
                 {args}.hardPodAffinityWeight: Invalid value: 101: must be in the range 0-100"
            ),
        ),
        (
            given("InterPodAffinity", json!({"hardAffinityWeight": 1})),
            format!(
                "{args}.hardAffinityWeight: unknown field `hardAffinityWeight`, expected `hardPodAffinityWeight` or \
                 `ignorePreferredTermsOfExistingPods`"
            ),
        ),
        (
            given("InterPodAffinity", json!([1])),
            format!("{args}: invalid length 1, expected struct InterPodAffinity with 2 elements"),
        ),
        (
            given("DefaultPreemption", json!([1, 2])),
            format!("{args}: found a list, want an object"),
        ),
        (
            given("NodeResourcesFit", json!({"scoringStrategy": {"type": "RequestedToCapacityRatio"}})),
            format!(
                "{args}.scoringStrategy.type: Unsupported value: \"RequestedToCapacityRatio\": supported values: \
                 \"LeastAllocated\", \"MostAllocated\""
            ),
        ),
        (
            given("NodeResourcesFit", json!({"ignoredResources": ["example.com/gpio"], "scoringStrategy":
                {"resources": [{"name": "cpu", "weight": 101}, {"name": "cpu"}, {"name": ""}]}})),
            format!(
                "{args}.ignoredResources: Forbidden: every resource that a pod asks for counts here; leave it out; \
                 {args}.scoringStrategy.resources[0].weight: Invalid value: 101: must be in the range 0-100; \
                 {args}.scoringStrategy.resources[1].name: Duplicate value: \"cpu\"; \
                 {args}.scoringStrategy.resources[2].name: Required value: the name of a resource, such as cpu"
            ),
        ),
        (
            given("NodeResourcesBalancedAllocation", json!({"resources": [{"name": "cpu", "weight": 2}]})),
            format!("{args}.resources: Invalid value: \"cpu x 2\": must be cpu and memory, each with weight 1"),
        ),
        (
            given("DefaultPreemption", json!({"minCandidateNodesPercentage": 101, "minCandidateNodesAbsolute": -1})),
            format!(
                "{args}.minCandidateNodesPercentage: Invalid value: 101: must be in the range 0-100; \
                 {args}.minCandidateNodesAbsolute: Invalid value: -1: must be in the range 0-9223372036854775807"
            ),
        ),
        (
            given("NodeAffinity", json!({"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}}})),
            format!(
                "{args}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]\
                 .matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator, want In, NotIn, \
                 Exists, DoesNotExist, Gt or Lt"
            ),
        ),
        (
            given("NodeAffinity", json!({"addedAffinity": {"required": {}}})),
            format!("{args}.addedAffinity.required: unknown field"),
        ),
        (
            given("PodTopologySpread", json!({"defaultConstraints": [constraint]})),
            format!("{args}.defaultConstraints: Invalid value: [{constraint}]: must be left out when defaultingType is \
                 System; use defaultingType: List"),
        ),
        (
            given("PodTopologySpread", json!({"defaultingType": "Some"})),
            format!("{args}.defaultingType: Unsupported value: \"Some\": supported values: \"System\", \"List\""),
        ),
        (
            list(&|changed| changed["labelSelector"] = json!({"matchLabels": {"a": "b"}})),
            format!("{at}.labelSelector: Forbidden: constraint must not define a selector, as they are deduced for each pod"),
        ),
        (
            list(&|changed| changed["maxSkew"] = json!(0)),
            format!("{at}.maxSkew: Invalid value: 0: must be greater than zero"),
        ),
        (
            list(&|changed| changed["maxSkews"] = json!(0)),
            format!("{at}.maxSkews: unknown field"),
        ),
        (
            list(&|changed| changed["whenUnsatisfiable"] = json!("Never")),
            format!(
                "{at}.whenUnsatisfiable: Unsupported value: \"Never\": supported values: \"DoNotSchedule\", \
                 \"ScheduleAnyway\""
            ),
        ),
        (
            given("VolumeBinding", json!({"shape": [{"utilization": 0, "score": 0}]})),
            format!("{args}.shape: Forbidden: volumes are not scored by their capacity here"),
        ),
    ];
    refused(cases.iter().map(|(fields, want)| (fields.clone(), want.as_str())).collect());
    assert_eq!(
        one(list(&|changed| changed["labelSelector"] = json!({}))["profiles"][0].clone()).default_spread,
        DefaultSpread::List(vec![constraint.clone()])
    );
}

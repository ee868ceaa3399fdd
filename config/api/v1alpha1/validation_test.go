package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rrpool/rrpool/config/crd"
)

// The messages of the rules, as a user sees them.
const (
	badLabelKey    = "must be a label key"
	badDuration    = "must be a positive duration, such as 90s or 1m30s"
	badSelector    = "matchExpressions: In and NotIn need values, Exists and DoesNotExist take none, and there are no other operators"
	badIPv4        = "must be written like an IPv4 address, and not 0.0.0.0"
	badRatio       = "must be a decimal in (0,1], such as 0.005"
	badPoolName    = "must start with a lower-case letter, hold only lower-case letters, digits and '-', and not end with '-'"
	badSteps       = "must ascend strictly by upToNodes"
	needsDedicated = "spec.topology.type must be Single or Auto while spec.provider.type is ExistingNodes"
	badNetwork     = "give a subnetID (VPC) or a privateVLAN (classic), and not both"
	badKMS         = "each must be an ID, not a CRN"
	badProfile     = "give the trusted profile's id or its name: one of them, not both"
	badProfileName = "must be the name of a trusted profile: on one line, without spaces around it"
	badZone        = "each must be an IBM Cloud zone, such as us-south-1 or dal10"
	below1         = "should be greater than or equal to 1"
	unsupported    = "Unsupported value"
)

// rules lists, for every rule, specs that it takes and specs that it refuses with the words expected.
var rules = map[string]struct {
	takes   []string
	refuses map[string]string
}{
	"mode": {
		takes:   []string{`{mode: FullMesh}`, `{mode: Paused}`},
		refuses: map[string]string{`{mode: Mesh}`: unsupported, `{mode: ""}`: unsupported},
	},
	"provider.type": {
		takes:   []string{`{provider: {type: IKS}}`, `{provider: {type: ExistingNodes}}`},
		refuses: map[string]string{`{provider: {type: AWS}}`: unsupported},
	},
	"provider.iks.clusterID": {
		takes: []string{`{provider: {iks: {clusterID: bl25g33d0if1cmfn0p8g}}}`, `{provider: {iks: {clusterID: ""}}}`},
		refuses: map[string]string{
			`{provider: {iks: {clusterID: a/b}}}`:                             "must be an IKS cluster ID",
			`{provider: {iks: {clusterID: "a?b"}}}`:                           "must be an IKS cluster ID",
			`{provider: {iks: {clusterID: ` + strings.Repeat("a", 65) + `}}}`: "may not be more than 64",
		},
	},
	"provider.iks.poolName": {
		takes: []string{
			`{provider: {iks: {poolName: a}}}`, `{provider: {iks: {poolName: rr-2}}}`,
			`{provider: {iks: {poolName: ` + strings.Repeat("a", 31) + `}}}`,
		},
		refuses: map[string]string{
			`{provider: {iks: {poolName: ""}}}`:                              badPoolName,
			`{provider: {iks: {poolName: RR}}}`:                              badPoolName,
			`{provider: {iks: {poolName: 2rr}}}`:                             badPoolName,
			`{provider: {iks: {poolName: rr-}}}`:                             badPoolName,
			`{provider: {iks: {poolName: "../x"}}}`:                          badPoolName,
			`{provider: {iks: {poolName: ` + strings.Repeat("a", 32) + `}}}`: "may not be more than 31",
		},
	},
	"provider.iks.flavor": {
		takes: []string{
			`{provider: {iks: {flavor: bx2.2x8}}}`, `{provider: {iks: {flavor: b3c.4x16.encrypted}}}`, `{provider: {iks: {flavor: ""}}}`,
		},
		refuses: map[string]string{
			`{provider: {iks: {flavor: a/b}}}`:       "must be an IKS flavor",
			`{provider: {iks: {flavor: "bx2 2x8"}}}`: "must be an IKS flavor",
		},
	},
	"provider.iks.credentialsSecretRef": {
		takes: []string{`{provider: {iks: {credentialsSecretRef: {name: mine, key: api.key}}}}`},
		refuses: map[string]string{
			`{provider: {iks: {credentialsSecretRef: {}}}}`:                       "name and key of the Secret with the API key are required",
			`{provider: {iks: {credentialsSecretRef: {name: mine}}}}`:             "name and key of a Secret go together",
			`{provider: {iks: {credentialsSecretRef: {name: A, key: k}}}}`:        "must be the name of a Secret",
			`{provider: {iks: {credentialsSecretRef: {name: mine, key: "a/b"}}}}`: "must be a key of a Secret",
		},
	},
	"provider.iks.credentials": {
		takes: []string{
			`{provider: {iks: {credentials: {}}}}`,
			`{provider: {iks: {credentials: {trustedProfile: {id: Profile-9f2e1c7a-0000-4000-8000-000000000000}}}}}`,
			`{provider: {iks: {credentials: {trustedProfile: {name: 'Größe & "Zonen" = 100% +ü/?#'}}}}}`,
			`{provider: {iks: {credentials: {trustedProfile: {name: r}}, credentialsSecretRef: {name: mine, key: k}}}}`,
		},
		refuses: map[string]string{
			`{provider: {iks: {credentials: {trustedProfile: {}}}}}`:                                       badProfile,
			`{provider: {iks: {credentials: {trustedProfile: {id: Profile-1, name: rrpool}}}}}`:            badProfile,
			`{provider: {iks: {credentials: {trustedProfile: {id: ""}}}}}`:                                 "must be the ID of a trusted profile",
			`{provider: {iks: {credentials: {trustedProfile: {id: "a b"}}}}}`:                              "must be the ID of a trusted profile",
			`{provider: {iks: {credentials: {trustedProfile: {name: ""}}}}}`:                               badProfileName,
			`{provider: {iks: {credentials: {trustedProfile: {name: " r"}}}}}`:                             badProfileName,
			`{provider: {iks: {credentials: {trustedProfile: {name: "r "}}}}}`:                             badProfileName,
			`{provider: {iks: {credentials: {trustedProfile: {name: "r\nr"}}}}}`:                           badProfileName,
			`{provider: {iks: {credentials: {trustedProfile: {name: ` + strings.Repeat("a", 257) + `}}}}}`: "may not be more than 256",
		},
	},
	"provider.iks.resourceGroup": {
		takes:   []string{`{provider: {iks: {resourceGroup: 5f1e0c2a}}}`},
		refuses: map[string]string{`{provider: {iks: {resourceGroup: "a\nb"}}}`: "must be a resource group ID"},
	},
	"provider.iks.endpoint": {
		takes:   []string{`{provider: {iks: {endpoint: Private}}}`},
		refuses: map[string]string{`{provider: {iks: {endpoint: private}}}`: unsupported},
	},
	"provider.iks.zones": {
		takes: []string{`{provider: {iks: {zones: [us-south-1, dal10]}}}`, `{provider: {iks: {zones: []}}}`},
		refuses: map[string]string{
			`{provider: {iks: {zones: [us-south-1, us-south-1]}}}`: "Duplicate value",
			`{provider: {iks: {zones: [us/south]}}}`:               badZone,
			`{provider: {iks: {zones: [".."]}}}`:                   badZone,
			`{provider: {iks: {zones: [""]}}}`:                     "should be at least 1 chars long",
		},
	},
	"provider.iks.operatingSystem": {
		takes:   []string{`{provider: {iks: {operatingSystem: UBUNTU_24_64}}}`, `{provider: {iks: {operatingSystem: ""}}}`},
		refuses: map[string]string{`{provider: {iks: {operatingSystem: ubuntu}}}`: "must be an operating system of IKS", `{provider: {iks: {operatingSystem: "A/B"}}}`: "must be an operating system of IKS"},
	},
	"provider.iks.securityGroups": {
		takes: []string{`{provider: {iks: {securityGroups: [r006-1a2b3c4d-5e6f]}}}`, `{provider: {iks: {securityGroups: []}}}`, `{provider: {iks: {securityGroups: [a, b, c, d, e]}}}`},
		refuses: map[string]string{
			`{provider: {iks: {securityGroups: [a, b, c, d, e, f]}}}`: "must have at most 5 items",
			`{provider: {iks: {securityGroups: [a, a]}}}`:             "Duplicate value",
			`{provider: {iks: {securityGroups: ["a/b"]}}}`:            "each must be the ID of a security group",
			`{provider: {iks: {securityGroups: [""]}}}`:               "should be at least 1 chars long",
		},
	},
	"provider.iks.networks": {
		takes: []string{
			`{provider: {iks: {networks: [{zone: us-south-1, subnetID: 0717-1a2b}, {zone: us-south-2, subnetID: 0727-1a2b}]}}}`,
			`{provider: {iks: {networks: [{zone: dal10, privateVLAN: "2234945", publicVLAN: "2234947"}, {zone: dal12, privateVLAN: "1"}]}}}`,
		},
		refuses: map[string]string{
			`{provider: {iks: {networks: [{zone: dal10}]}}}`:                                                    badNetwork,
			`{provider: {iks: {networks: [{zone: dal10, subnetID: a, privateVLAN: "1"}]}}}`:                     badNetwork,
			`{provider: {iks: {networks: [{zone: dal10, subnetID: a, publicVLAN: "1"}]}}}`:                      "a publicVLAN needs the privateVLAN",
			`{provider: {iks: {networks: [{zone: dal10, subnetID: ""}]}}}`:                                      "must be the ID of a subnet",
			`{provider: {iks: {networks: [{zone: dal10, subnetID: a/b}]}}}`:                                     "must be the ID of a subnet",
			`{provider: {iks: {networks: [{zone: dal10, privateVLAN: "x1"}]}}}`:                                 "must be the ID of a VLAN",
			`{provider: {iks: {networks: [{zone: dal10, privateVLAN: "1", publicVLAN: ""}]}}}`:                  "must be the ID of a VLAN",
			`{provider: {iks: {networks: [{subnetID: a}]}}}`:                                                    "Required value",
			`{provider: {iks: {networks: [{zone: "a/b", subnetID: a}]}}}`:                                       "must be an IBM Cloud zone",
			`{provider: {iks: {networks: [{zone: us-south-1, subnetID: a}, {zone: us-south-1, subnetID: b}]}}}`: "Duplicate value",
		},
	},
	"provider.iks.workerVolumeEncryption": {
		takes: []string{
			`{provider: {iks: {workerVolumeEncryption: {kmsInstanceID: 1aa1-1, rootKeyID: b2-2}}}}`,
			`{provider: {iks: {workerVolumeEncryption: {kmsInstanceID: a, rootKeyID: b, kmsAccountID: 0f1e2d3c}}}}`,
		},
		refuses: map[string]string{
			`{provider: {iks: {workerVolumeEncryption: {}}}}`:                                                    "Required value",
			`{provider: {iks: {workerVolumeEncryption: {kmsInstanceID: a}}}}`:                                    "Required value",
			`{provider: {iks: {workerVolumeEncryption: {rootKeyID: a}}}}`:                                        "Required value",
			`{provider: {iks: {workerVolumeEncryption: {kmsInstanceID: "crn:v1:kms", rootKeyID: b}}}}`:           badKMS,
			`{provider: {iks: {workerVolumeEncryption: {kmsInstanceID: a, rootKeyID: ""}}}}`:                     badKMS,
			`{provider: {iks: {workerVolumeEncryption: {kmsInstanceID: a, rootKeyID: b, kmsAccountID: "a b"}}}}`: badKMS,
		},
	},
	"provider.iks.dedicatedHostPoolID": {
		takes:   []string{`{provider: {iks: {dedicatedHostPoolID: dh-1a2b}}}`, `{provider: {iks: {dedicatedHostPoolID: ""}}}`},
		refuses: map[string]string{`{provider: {iks: {dedicatedHostPoolID: "a/b"}}}`: "must be the ID of a dedicated host pool"},
	},
	"provider.iks.taint": {
		takes: []string{`{provider: {iks: {taint: {key: dedicated, value: rr, effect: NoSchedule}}}}`},
		refuses: map[string]string{
			`{provider: {iks: {taint: {key: "a b"}}}}`:               badLabelKey,
			`{provider: {iks: {taint: {key: /rr}}}}`:                 badLabelKey,
			`{provider: {iks: {taint: {value: ""}}}}`:                "must be a label value that is not empty",
			`{provider: {iks: {taint: {value: "rr:NoSchedule"}}}}`:   "must be a label value that is not empty",
			`{provider: {iks: {taint: {effect: PreferNoSchedule}}}}`: unsupported,
			`{provider: {iks: {taint: {effect: ""}}}}`:               unsupported,
		},
	},
	"provider.iks.deletionPolicy": {
		takes:   []string{`{provider: {iks: {deletionPolicy: Delete}}}`},
		refuses: map[string]string{`{provider: {iks: {deletionPolicy: Orphan}}}`: unsupported},
	},
	"provider.existingNodes": {
		takes: []string{
			`{provider: {existingNodes: {preferred: {matchLabels: {a: b}}, excluded: {matchExpressions: [{key: a, operator: Exists}]}}}}`,
			`{provider: {existingNodes: {preferred: {matchExpressions: [{key: a, operator: In, values: [b]}, {key: a, operator: NotIn, values: [c, d]}]}}}}`,
			`{provider: {existingNodes: {excluded: {matchExpressions: [{key: a, operator: DoesNotExist, values: []}]}, promotion: Drain}}}`,
		},
		refuses: map[string]string{
			`{provider: {existingNodes: {preferred: {matchExpressions: [{key: a, operator: In}]}}}}`:                       badSelector,
			`{provider: {existingNodes: {preferred: {matchExpressions: [{key: a, operator: NotIn, values: []}]}}}}`:        badSelector,
			`{provider: {existingNodes: {excluded: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}}}`:       badSelector,
			`{provider: {existingNodes: {excluded: {matchExpressions: [{key: a, operator: DoesNotExist, values: [b]}]}}}}`: badSelector,
			`{provider: {existingNodes: {excluded: {matchExpressions: [{key: a, operator: Gt, values: ["1"]}]}}}}`:         badSelector,
			`{provider: {existingNodes: {promotion: Now}}}`:                                                                unsupported,
		},
	},
	"sizing": {
		takes: []string{
			`{sizing: {min: 25}}`, `{sizing: {min: 1, max: 1}}`, `{sizing: {minPerZone: 2}}`,
			`{sizing: {method: Linear, ratio: "0.5"}}`, `{sizing: {ratio: "1"}}`, `{sizing: {ratio: "1.00"}}`, `{sizing: {ratio: ".01"}}`,
		},
		refuses: map[string]string{
			`{sizing: {min: 26}}`:        "min must not exceed max",
			`{sizing: {max: 2}}`:         "min must not exceed max",
			`{sizing: {min: 0}}`:         below1,
			`{sizing: {minPerZone: 0}}`:  below1,
			`{sizing: {method: Square}}`: unsupported,
			`{sizing: {ratio: "0"}}`:     badRatio,
			`{sizing: {ratio: "1.01"}}`:  badRatio,
			`{sizing: {ratio: ""}}`:      badRatio,
			`{sizing: {ratio: "0.5\n"}}`: badRatio,
		},
	},
	"sizing.steps": {
		takes: []string{
			`{sizing: {method: Stepping, steps: [{upToNodes: 200, reflectors: 3}]}}`,
			`{sizing: {method: Stepping, steps: [{upToNodes: 9, reflectors: 3}, {upToNodes: 10, reflectors: 3}, {upToNodes: 500, reflectors: 5}]}}`,
		},
		refuses: map[string]string{
			`{sizing: {method: Stepping}}`:            "method Stepping needs at least one step",
			`{sizing: {method: Stepping, steps: []}}`: "method Stepping needs at least one step",
			`{sizing: {method: Stepping, steps: [{upToNodes: 500, reflectors: 5}, {upToNodes: 200, reflectors: 3}]}}`: badSteps,
			`{sizing: {method: Stepping, steps: [{upToNodes: 200, reflectors: 3}, {upToNodes: 200, reflectors: 5}]}}`: badSteps,
			`{sizing: {steps: [{upToNodes: 0, reflectors: 3}]}}`:                                                      below1,
			`{sizing: {steps: [{upToNodes: 10, reflectors: 0}]}}`:                                                     below1,
			`{sizing: {steps: [{upToNodes: 10}]}}`:                                                                    "Required value",
		},
	},
	"topology": {
		takes: []string{
			`{topology: {clusterID: 10.0.0.255}}`, `{topology: {clusterID: 255.255.255.255}}`, `{topology: {clusterID: 0.0.0.1}}`,
			`{topology: {type: Hierarchy, redundancy: 1, maxClientsPerReflector: 1, maxPathsPerPrefix: 1}}`,
			`{topology: {type: Auto}}`, `{topology: {type: Quorum}}`, `{topology: {type: MultiCluster}}`,
			`{topology: {type: Auto}, provider: {type: ExistingNodes}}`, `{topology: {type: Quorum}, provider: {type: IKS}}`,
		},
		refuses: map[string]string{
			`{topology: {clusterID: 0.0.0.0}}`:                            badIPv4,
			`{topology: {clusterID: 1.2.3.256}}`:                          badIPv4,
			`{topology: {clusterID: 01.2.3.4}}`:                           badIPv4,
			`{topology: {clusterID: ""}}`:                                 badIPv4,
			`{topology: {type: Star}}`:                                    unsupported,
			`{topology: {redundancy: 0}}`:                                 below1,
			`{topology: {maxClientsPerReflector: 0}}`:                     below1,
			`{topology: {maxPathsPerPrefix: 0}}`:                          below1,
			`{topology: {type: Quorum}, provider: {type: ExistingNodes}}`: needsDedicated,
		},
	},
	"the label keys": {
		takes: []string{
			`{bgp: {nodeLabel: rr}}`, `{bgp: {nodeLabel: notkubernetes.io/rr}}`, `{bgp: {nodeLabel: node-restriction.kubernetes.io/rr}}`, `{topology: {zoneLabel: example.com/rack_1}}`,
			`{bgp: {nodeLabel: ` + strings.Repeat("a", 253) + `/` + strings.Repeat("b", 63) + `}}`,
			`{topology: {rackLabel: example.com/rack}}`, `{topology: {rackLabel: ""}}`, `{topology: {rackLabel: topology.kubernetes.io/zone}}`,
		},
		refuses: map[string]string{
			`{bgp: {nodeLabel: ""}}`:                                 badLabelKey,
			`{bgp: {nodeLabel: a/b/c}}`:                              badLabelKey,
			`{bgp: {nodeLabel: "') || all() || has('x"}}`:            badLabelKey,
			`{bgp: {nodeLabel: ` + strings.Repeat("b", 64) + `}}`:    badLabelKey,
			`{bgp: {nodeLabel: ` + strings.Repeat("a", 254) + `/b}}`: badLabelKey,
			`{topology: {zoneLabel: "-zone"}}`:                       badLabelKey,
			`{topology: {rackLabel: "rack="}}`:                       badLabelKey,
			`{topology: {rackLabel: rrpool.io/rack}}`:                "leave the field out, or give the key of a label of yours",
			`{topology: {rackLabel: rrpool.io/pool}}`:                "leave the field out, or give the key of a label of yours",
			`{topology: {zoneLabel: rrpool.io/rack}}`:                "for other ends: give another key",
			`{bgp: {nodeLabel: rrpool.io/rack}}`:                     "for other ends: give another key",
			`{bgp: {nodeLabel: rrpool.io/options}}`:                  "for other ends: give another key",
			`{topology: {zoneLabel: rrpool.io/options}}`:             "for other ends: give another key",
			`{bgp: {nodeLabel: rrpool.io/pool}}`:                     "for other ends: give another key",
			`{topology: {rackLabel: rrpool.io/route-reflector}}`:     "spec.topology.rackLabel must differ from spec.bgp.nodeLabel",
			`{topology: {rackLabel: rr}, bgp: {nodeLabel: rr}}`:      "spec.topology.rackLabel must differ from spec.bgp.nodeLabel",
			`{bgp: {nodeLabel: rack}, topology: {zoneLabel: rack}}`:  "spec.bgp.nodeLabel must differ from spec.topology.zoneLabel",
			`{bgp: {nodeLabel: k8s.io/rr}}`:                          "have a meaning for Kubernetes",
			`{bgp: {nodeLabel: node-role.kubernetes.io/worker}}`:     "have a meaning for Kubernetes",
		},
	},
	"bgp.passwordSecretRef": {
		takes: []string{`{bgp: {passwordSecretRef: {}}}`, `{bgp: {passwordSecretRef: {name: bgp, key: password}}}`},
		refuses: map[string]string{
			`{bgp: {passwordSecretRef: {name: bgp}}}`:     "name and key of a Secret go together",
			`{bgp: {passwordSecretRef: {key: password}}}`: "name and key of a Secret go together",
		},
	},
	"rollout": {
		takes: []string{
			`{rollout: {gate: Timer, sessionTimeout: 1h30m, notReadyGrace: 500ms, removalDelay: 1.5s}}`,
			`{rollout: {safetyNet: {minServing: 1, after: 1s}}}`,
		},
		refuses: map[string]string{
			`{rollout: {gate: Hope}}`:                   unsupported,
			`{rollout: {removalDelay: soon}}`:           badDuration,
			`{rollout: {sessionTimeout: 0s}}`:           badDuration,
			`{rollout: {sessionTimeout: "5"}}`:          badDuration,
			`{rollout: {sessionTimeout: ""}}`:           badDuration,
			`{rollout: {sessionTimeout: 300}}`:          "must be of type string",
			`{rollout: {sessionTimeout: 99999999999h}}`: "spec.rollout.sessionTimeout",
			`{rollout: {notReadyGrace: 0s}}`:            badDuration,
			`{rollout: {safetyNet: {after: 0ms}}}`:      badDuration,
			`{rollout: {safetyNet: {minServing: 0}}}`:   below1,
			`{rollout: {safetyNet: {minServing: 26}}}`:  "should be less than or equal to 25",
		},
	},
}

func TestEveryRuleTakesWhatIsValidAndRefusesTheRest(t *testing.T) {
	c := admin(t)
	for name, rule := range rules {
		for _, spec := range rule.takes {
			t.Run(name+" takes "+brief(spec), func(t *testing.T) {
				require.NoError(t, c.Create(t.Context(), object(t, spec), client.DryRunAll))
			})
		}
		for spec, message := range rule.refuses {
			t.Run(name+" refuses "+brief(spec), func(t *testing.T) {
				o := object(t, spec)
				content, err := o.MarshalJSON()
				require.NoError(t, err)
				_, err = crd.Read(content)
				require.Error(t, err, "a command that reads the object from a file refuses it as well")
				require.ErrorContains(t, c.Create(t.Context(), o, client.DryRunAll), message)
			})
		}
	}
}

func TestTheOnlyNameIsDefault(t *testing.T) {
	c := admin(t)
	require.NoError(t, c.Create(t.Context(), named(t, "default", `{}`), client.DryRunAll))
	err := c.Create(t.Context(), named(t, "second", `{}`), client.DryRunAll)
	require.ErrorContains(t, err, "there is one RouteReflectorPool per cluster, and its name is default")
}

// Values that are no addresses or CIDRs are refused by the controller, which can say what is meant.
func TestAClusterPeeringThatMeansNothingIsRefused(t *testing.T) {
	c := admin(t)
	const static = `{remote: {static: {asNumber: 64513, reflectors: [10.9.0.1]}}}`
	create := func(name, spec string) error {
		o := named(t, name, spec)
		o.SetKind("ClusterPeering")
		return c.Create(t.Context(), o, client.DryRunAll)
	}
	for _, spec := range []string{
		static, `{remote: {kubeconfigSecretRef: {name: b, key: kubeconfig}}, nextHop: Nodes, advertise: {pods: false}, passwordSecretRef: {name: bgp, key: p}}`,
	} {
		require.NoError(t, create("cluster-b", spec))
	}
	const one = "give kubeconfigSecretRef or static: one of them, not both"
	for spec, message := range map[string]string{
		`{remote: {}}`: one,
		`{remote: {kubeconfigSecretRef: {name: b, key: k}, static: {asNumber: 64513, reflectors: [10.9.0.1]}}}`: one,
		`{remote: {kubeconfigSecretRef: {}}}`:                                       "name and key of the Secret with the kubeconfig are required",
		`{remote: {kubeconfigSecretRef: {name: b}}}`:                                "name and key of a Secret go together",
		`{remote: {static: {asNumber: 0, reflectors: [10.9.0.1]}}}`:                 below1,
		`{remote: {static: {asNumber: 4294967296, reflectors: [10.9.0.1]}}}`:        "should be less than or equal to 4294967295",
		`{remote: {static: {asNumber: 64513, reflectors: []}}}`:                     "should have at least 1 items",
		`{remote: {static: {asNumber: 64513, reflectors: [10.9.0.1, 10.9.0.1]}}}`:   "Duplicate value",
		strings.Replace(static, "}}}", "}}, nextHop: Self}", 1):                     unsupported,
		strings.Replace(static, "}}}", "}}, passwordSecretRef: {key: p}}", 1):       "name and key of a Secret go together",
		strings.Replace(static, "}}}", "}}, advertise: {serviceCIDRs: [a, a]}}", 1): "Duplicate value",
		strings.Replace(static, "10.9.0.1", `"`+strings.Repeat("1", 46)+`"`, 1):     "may not be more than 45",
	} {
		require.ErrorContains(t, create("cluster-b", spec), message, spec)
	}
	for _, name := range []string{strings.Repeat("b", 41), "cluster.b"} {
		require.ErrorContains(t, create(name, static), "the name must have at most 40 lower-case letters, digits and '-'")
	}
}

// brief keeps test names readable.
func brief(spec string) string {
	if len(spec) > 90 {
		return spec[:90] + "…"
	}
	return spec
}

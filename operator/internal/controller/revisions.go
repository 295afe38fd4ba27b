package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

// role has the templates of a kind of member: the recorded one, and those that could be used.
type role struct {
	kind      plan.Kind
	component string
	object    *appsv1.ControllerRevision // of the current template; nil: nothing is recorded
	current   specs.Revision
	// templates are all templates that the plan may choose from, by name.
	templates map[string]corev1.PodTemplateSpec
	// decided is the name of the template for new members from now on, and request the restart request that it was
	// accepted under; recorded: both are stored.
	decided, request string
	recorded         bool
	// rolls: servers are restarted for the request (plan.Role.Rolls).
	rolls bool
}

func componentOf(kind plan.Kind) string {
	switch kind {
	case plan.Etcd:
		return specs.ComponentEtcd
	case plan.Coordinator:
		return specs.ComponentCoordinator
	}
	return specs.ComponentServer
}

// kinds are the kinds of members that the cluster has.
func kinds(cluster *ramcloudv1.RAMCloudCluster) []plan.Kind {
	if specs.WantedEtcd(cluster) == 0 {
		return []plan.Kind{plan.Coordinator, plan.Server}
	}
	return []plan.Kind{plan.Etcd, plan.Coordinator, plan.Server}
}

// defaultsFor are the operator's defaults for a kind of member.
func (r *ClusterReconciler) defaultsFor(kind plan.Kind) specs.Defaults {
	if kind == plan.Etcd {
		return specs.Defaults{Image: r.Defaults.EtcdImage, PriorityClass: r.Defaults.PriorityClass, IPv6: r.Defaults.IPv6}
	}
	return specs.Defaults{Image: r.Defaults.NodeImage, PriorityClass: r.Defaults.PriorityClass, IPv6: r.Defaults.IPv6}
}

// readRoles reads the recorded templates of each kind.
func (o *observed) readRoles() error {
	o.roles = map[plan.Kind]*role{}
	for _, kind := range kinds(o.cluster) {
		one := &role{kind: kind, component: componentOf(kind), templates: map[string]corev1.PodTemplateSpec{}}
		for _, object := range o.revisions {
			mine := object.Labels[specs.LabelComponent] == one.component && object.Labels[specs.LabelRevisionState] == specs.RevisionCurrent
			if mine && object.DeletionTimestamp == nil && (one.object == nil || object.Revision > one.object.Revision) {
				one.object = object
			}
		}
		if one.object != nil {
			var err error
			if one.current, err = specs.ReadRevision(one.object); err != nil {
				return err
			}
			one.templates[one.object.Name] = one.current.Template
			one.decided, one.request = one.object.Name, one.object.Annotations[specs.AnnotationRestart]
			one.rolls = one.object.Annotations[specs.AnnotationRolls] != ""
		}
		o.roles[kind] = one
	}
	return nil
}

// rolesForPlan converts the roles to the plan's input.
func (r *ClusterReconciler) rolesForPlan(o *observed) (map[plan.Kind]plan.Role, error) {
	if err := o.readRoles(); err != nil {
		return nil, err
	}
	out := map[plan.Kind]plan.Role{}
	for _, kind := range kinds(o.cluster) {
		out[kind] = r.roleForPlan(o, o.roles[kind])
	}
	return out, nil
}

func (r *ClusterReconciler) roleForPlan(o *observed, one *role) plan.Role {
	c, ours := o.cluster, r.defaultsFor(one.kind)
	running := o.runningBeside(one.kind, r.Version)
	named := func(template corev1.PodTemplateSpec) string {
		name := specs.RevisionName(c.Name, template)
		one.templates[name] = template
		return name
	}
	candidate := func(template corev1.PodTemplateSpec) plan.Candidate {
		refused, waits := running.Skew(one.kind, specs.Image(template))
		return plan.Candidate{Template: named(template), Refused: refused, Waits: waits}
	}
	fresh := specs.Template(c, one.component, ours)
	out := plan.Role{Fresh: candidate(fresh)}
	if one.object == nil {
		if pod := o.newest(one.kind); pod != nil {
			out.Running = named(specs.TemplateOf(pod))
		}
		first := ours
		if image := o.otherDaemonsImage(one.kind); image != "" {
			first.Image = image
		}
		out.First = named(specs.Template(c, one.component, first))
		return out
	}
	out.Current, out.Request, out.Rolls = one.decided, one.request, one.rolls
	roll := ours
	if one.kind == plan.Server && o.roles[plan.Coordinator].object != nil {
		roll.Image = specs.Image(o.roles[plan.Coordinator].current.Template)
	}
	out.Roll = candidate(specs.Template(c, one.component, roll))
	kept := keptDefaults(one.current, one.kind, ours)
	then := c.DeepCopy()
	then.Spec = one.current.Spec
	keptTemplate := specs.Template(c, one.component, kept)
	out.Changed = specs.RevisionName(c.Name, specs.Template(then, one.component, kept)) != specs.RevisionName(c.Name, keptTemplate)
	out.Kept = candidate(keptTemplate)
	return out
}

// keptDefaults are the default values in the accepted template, which stay when the spec changes. A value that the
// accepted spec set itself was not a default: once the spec does not set it any more, the operator's default applies.
func keptDefaults(accepted specs.Revision, kind plan.Kind, ours specs.Defaults) specs.Defaults {
	out := ours
	named := accepted.Spec.Images.Node != ""
	if kind == plan.Etcd {
		named = accepted.Spec.Metadata.ManagedEtcd != nil && accepted.Spec.Metadata.ManagedEtcd.Image != ""
	}
	if !named {
		out.Image = specs.Image(accepted.Template)
	}
	if kind != plan.Server || accepted.Spec.Servers.Template.PriorityClassName == "" {
		out.PriorityClass = accepted.Template.Spec.PriorityClassName
	}
	return out
}

// newest is the pod of the kind that was created last; nil: there is none.
func (o *observed) newest(kind plan.Kind) *corev1.Pod {
	pods := o.podsOf(kind)
	if len(pods) == 0 {
		return nil
	}
	return slices.MaxFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
}

// podsOf are the pods of a kind, by name.
func (o *observed) podsOf(kind plan.Kind) (out []*corev1.Pod) {
	for _, name := range slices.Sorted(maps.Keys(o.pods)) {
		if pod := o.pods[name]; pod.Labels[specs.LabelComponent] == componentOf(kind) {
			out = append(out, pod)
		}
	}
	return out
}

// otherDaemonsImage is the servers' image for coordinators, and the coordinators' image for servers: the first member
// of a kind gets the version of the running daemons.
func (o *observed) otherDaemonsImage(kind plan.Kind) string {
	other := map[plan.Kind]plan.Kind{plan.Coordinator: plan.Server, plan.Server: plan.Coordinator}
	of, any := other[kind]
	if !any {
		return ""
	}
	if o.roles[of].object != nil {
		return specs.Image(o.roles[of].current.Template)
	}
	if pod := o.newest(of); pod != nil {
		return specs.Image(specs.TemplateOf(pod))
	}
	return ""
}

// runningBeside are the processes that members of the kind would run with: running ones, and those that would be
// created from the recorded templates of other kinds; of this kind if none of it runs, because it left data.
func (o *observed) runningBeside(kind plan.Kind, operator string) plan.Running {
	out := plan.Running{Operator: operator, Processes: map[plan.Kind][]plan.Process{}}
	for _, each := range kinds(o.cluster) {
		for _, pod := range o.podsOf(each) {
			p := plan.Process{Name: pod.Name, Image: specs.Image(specs.TemplateOf(pod))}
			if record := o.servers[pod.Name]; each == plan.Server && record != nil {
				p.Says = record.Status.Version
			}
			out.Processes[each] = append(out.Processes[each], p)
		}
		if (each != kind || len(out.Processes[each]) == 0) && o.roles[each].object != nil {
			out.Processes[each] = append(out.Processes[each],
				plan.Process{Name: "a later " + componentOf(each), Image: specs.Image(o.roles[each].current.Template)})
		}
	}
	return out
}

// record stores the decision before any pod is created from it, and publishes what a roll would change.
func (r *ClusterReconciler) record(ctx context.Context, o *observed, d plan.Decision, done *steps) {
	for _, kind := range []plan.Kind{plan.Server, plan.Coordinator, plan.Etcd} {
		decided, any := d.Revisions[kind]
		if !any {
			continue
		}
		one := o.roles[kind]
		before := one.object
		one.decided, one.request, one.rolls = decided.Current, decided.Request, decided.Rolls
		err := r.keepRevision(ctx, o, one, decided.Current, specs.RevisionCurrent, decided.Request)
		one.recorded = done.noteOutcome("recording the template of "+one.component, err)
		if !one.recorded {
			continue
		}
		if before != nil && before.Name != decided.Current {
			r.event(o.cluster, corev1.EventTypeNormal, "TemplateAccepted", "Roll", "new pods of %s are made from %s", one.component, decided.Current)
		}
		if decided.Pending != "" {
			err := r.keepRevision(ctx, o, one, decided.Pending, specs.RevisionPending, "")
			done.noteOutcome("publishing what a roll of "+one.component+" would bring", err)
		}
		r.dropRevisions(ctx, o, one, decided, done)
	}
}

// keepRevision stores a template with its present state (current, pending or former).
func (r *ClusterReconciler) keepRevision(ctx context.Context, o *observed, one *role, name, state, request string) error {
	last := int64(0)
	for _, object := range o.revisions {
		if object.Labels[specs.LabelComponent] == one.component && object.Name != name {
			last = max(last, object.Revision)
		}
	}
	if live := o.revisions[name]; live != nil {
		return r.markRevision(ctx, o, live, mark{state, request, one.rolls && state == specs.RevisionCurrent}, last)
	}
	revision := specs.Revision{Template: one.templates[name], Spec: o.cluster.Spec}
	wanted, err := specs.ControllerRevision(o.cluster, revision, last+1, state, request)
	if err != nil {
		return err
	}
	if one.rolls && state == specs.RevisionCurrent {
		wanted.Annotations[specs.AnnotationRolls] = rollsText
	}
	err = r.Create(ctx, wanted, fieldOwner)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a ControllerRevision of this name exists and is not this cluster's: %s", name)
	}
	if err != nil {
		return err
	}
	o.revisions[name] = wanted
	r.wrote(o, wanted)
	return nil
}

// rollsText is the annotation's value if servers are restarted.
const rollsText = "true"

// mark is the note on a revision.
type mark struct {
	state, request string
	rolls          bool
}

func markOf(object *appsv1.ControllerRevision) mark {
	return mark{object.Labels[specs.LabelRevisionState], object.Annotations[specs.AnnotationRestart], object.Annotations[specs.AnnotationRolls] != ""}
}

// markRevision writes the state of a stored revision, and adopts it. If several are current, the one with the highest
// number counts, so that a crash between two writes is harmless.
func (r *ClusterReconciler) markRevision(ctx context.Context, o *observed, live *appsv1.ControllerRevision, wanted mark, last int64) error {
	owned := metav1.IsControlledBy(live, o.cluster)
	if markOf(live) == wanted && owned {
		return nil
	}
	changed := live.DeepCopy()
	metav1.SetMetaDataLabel(&changed.ObjectMeta, specs.LabelRevisionState, wanted.state)
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, specs.AnnotationRestart, wanted.request)
	if delete(changed.Annotations, specs.AnnotationRolls); wanted.rolls {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, specs.AnnotationRolls, rollsText)
	}
	if wanted.state == specs.RevisionCurrent && live.Revision <= last {
		changed.Revision = last + 1
	}
	if !owned {
		changed.OwnerReferences = append(changed.OwnerReferences, specs.OwnerReference(o.cluster))
	}
	if err := r.Patch(ctx, changed, client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{}), fieldOwner); err != nil {
		return err
	}
	o.revisions[live.Name] = changed
	r.wrote(o, changed)
	return nil
}

// dropRevisions deletes revisions that are not used any more. Only the current one, the pending one, and those of
// running pods remain.
func (r *ClusterReconciler) dropRevisions(ctx context.Context, o *observed, one *role, decided plan.Revision, done *steps) {
	used := map[string]bool{}
	for _, pod := range o.pods {
		used[pod.Annotations[specs.AnnotationRevision]] = true
	}
	for _, name := range slices.Sorted(maps.Keys(o.revisions)) {
		object := o.revisions[name]
		if object.Labels[specs.LabelComponent] != one.component || name == decided.Current || name == decided.Pending || object.DeletionTimestamp != nil {
			continue
		}
		if used[name] {
			err := r.markRevision(ctx, o, object, mark{state: specs.RevisionFormer, request: object.Annotations[specs.AnnotationRestart]}, 0)
			done.noteOutcome("keeping the former template "+name, err)
			continue
		}
		done.noteOutcome("deleting the template "+name, r.delete(ctx, o, object))
	}
}

// wantedPod is the member's pod by the decided template; nil: nothing is decided or recorded.
func (m member) wantedPod(o *observed) *corev1.Pod {
	one := o.roles[m.id.Kind]
	if one == nil || one.decided == "" {
		return nil
	}
	trust := o.trust
	trust.SecurePeers = o.securePeers()
	pod := specs.Instantiate(o.cluster, one.templates[one.decided], m.id.Index, m.ports(o), trust)
	pod.Annotations[specs.AnnotationRevision] = one.decided
	specs.UseClaim(pod, m.generation(o))
	// While a roll is refused, pods are created as before it, and must be restarted once it is accepted.
	if pod.Annotations[specs.AnnotationRestart] = one.request; one.request == "" {
		delete(pod.Annotations, specs.AnnotationRestart)
	}
	return pod
}

// recorded says whether the template of the member's kind is stored. No pod is created or restarted before that,
// because a later operator would not know its template.
func (o *observed) recorded(m member) bool {
	one := o.roles[m.id.Kind]
	return one != nil && one.recorded
}

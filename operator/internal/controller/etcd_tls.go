package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/brief"
	"ramcloud.dev/operator/internal/certs"
	"ramcloud.dev/operator/internal/etcd"
	"ramcloud.dev/operator/internal/plan"
	"ramcloud.dev/operator/internal/specs"
)

const (
	// sharedFor is how long the Secret and the NetworkPolicy of a namespace are cached here. They are read past the
	// ordinary cache, because the operator has no right to list them.
	sharedFor = time.Minute
	// lookAtShared is how often a quiet cluster checks that they still exist.
	lookAtShared = 10 * time.Minute
)

// shared is what all managed etcds of a namespace share.
type shared struct {
	secret             map[string][]byte           // its data; nil: none was seen
	policy             *networkingv1.NetworkPolicy // nil: there is none
	secretAt, policyAt time.Time                   // when they were read
}

// sharedObjects are the objects as last read or written. If somebody deletes the Secret, it is written again from here,
// so that no authority is lost while an operator runs.
type sharedObjects struct {
	mutex       sync.Mutex
	byNamespace map[string]shared
}

func (s *sharedObjects) get(namespace string) shared {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.byNamespace[namespace]
}

// update applies `change` to the namespace's entry, and returns the result.
func (s *sharedObjects) update(namespace string, change func(*shared)) shared {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.byNamespace == nil {
		s.byNamespace = map[string]shared{}
	}
	one := s.byNamespace[namespace]
	change(&one)
	s.byNamespace[namespace] = one
	return one
}

// secureEtcd moves a managed etcd towards TLS: it notes the present stage, renews the certificates, and applies the
// NetworkPolicy. It adds its results to the plan's input. False: no pods of the etcd or its clients may be created now.
func (r *ClusterReconciler) secureEtcd(ctx context.Context, o *observed, input *plan.Observed, done *steps) bool {
	if input.EtcdMembers == 0 || input.Paused {
		return true
	}
	if stage := plan.NextTLS(*input); stage != input.TLS {
		wanted := *o.cluster.Status.DeepCopy()
		wanted.Etcd.TLS = stage.String()
		if !done.noteOutcome("noting the stage of TLS", r.writeClusterStatus(ctx, o.cluster, wanted)) {
			return false
		}
		before := input.TLS
		o.cluster.Status, input.TLS = wanted, stage
		if before != plan.TLSUnknown {
			r.event(o.cluster, corev1.EventTypeNormal, "EtcdTLS"+stage.String(), "Secure", "the etcd's TLS goes from %s to %s", before, stage)
		}
	}
	done.noteOutcome("NetworkPolicy "+specs.EtcdPolicyName, r.closeEtcd(ctx, o.cluster))
	if input.TLS == plan.TLSOff {
		return true
	}
	if !done.noteOutcome("certificates of the etcd", r.renewCertificates(ctx, o, *input)) {
		return false
	}
	for i, m := range input.Members {
		if pod := o.pods[m.Name]; pod != nil {
			input.Members[i].Pod.Outdated = specs.Outdated(pod, o.certificates, input.Now)
		}
	}
	return true
}

// readSecret reads the namespace's Secret, unless it was read recently. A deleted Secret is written again.
func (r *ClusterReconciler) readSecret(ctx context.Context, namespace string) (data map[string][]byte, there bool, err error) {
	one := r.shared.get(namespace)
	if one.secretAt.IsZero() || r.now().Sub(one.secretAt) >= sharedFor {
		secret := &corev1.Secret{}
		err := r.Uncached.Get(ctx, types.NamespacedName{Namespace: namespace, Name: specs.EtcdSecretName}, secret)
		switch {
		case apierrors.IsNotFound(err):
			return one.secret, false, nil
		case err != nil:
			return nil, false, fmt.Errorf("reading Secret %s: %w", specs.EtcdSecretName, err)
		}
		one = r.shared.update(namespace, func(s *shared) { s.secret, s.secretAt = secret.Data, r.now() })
	}
	return one.secret, true, nil
}

// renewCertificates brings the cluster's entries of the Secret up to date.
func (r *ClusterReconciler) renewCertificates(ctx context.Context, o *observed, input plan.Observed) error {
	c := o.cluster
	data, there, err := r.readSecret(ctx, c.Namespace)
	if err != nil {
		return err
	}
	set := certs.Read(string(c.UID), specs.EtcdSecretEntries(c.Name, data))
	var pods []string
	for _, pod := range o.pods {
		if pod.Annotations[specs.AnnotationTLS] != "" {
			pods = append(pods, pod.Annotations[specs.AnnotationAuthorities])
		}
	}
	lost := set.Authorities() == "" && len(pods) > 0
	changed, err := set.Renew(specs.EtcdCertificates(c), pods, input.Now)
	if err != nil {
		return err
	}
	if len(changed) > 0 || !there {
		entries, err := set.Entries()
		if err != nil {
			return err
		}
		if err := r.writeSecret(ctx, c, specs.EtcdSecret(c, entries)); err != nil {
			return err
		}
		kind, text := corev1.EventTypeNormal, "in Secret %s: %s"
		if lost {
			kind, text = corev1.EventTypeWarning, "the authority of the etcd was lost with Secret %s; delete the pods of etcd and of the coordinators, "+
				"which do not trust the new one: %s"
		}
		r.event(c, kind, "CertificatesMade", "Secure", text, specs.EtcdSecretName, brief.List(changed, ", "))
	}
	o.certificates = set
	o.trust.Authorities, o.trust.Until = set.Authorities(), set.Until(specs.CoordinatorLeaf())
	return nil
}

// writeSecret applies the cluster's part of the Secret. Each cluster owns its own entries, so that no cluster removes
// another's. Server-side apply by name needs no right to create Secrets with other names.
func (r *ClusterReconciler) writeSecret(ctx context.Context, c *ramcloudv1.RAMCloudCluster, wanted *corev1.Secret) error {
	written := &corev1.Secret{}
	if err := r.applyShared(ctx, c, wanted, written); err != nil {
		return err
	}
	r.shared.update(c.Namespace, func(s *shared) { s.secret, s.secretAt = written.Data, r.now() })
	return nil
}

// closeEtcd applies the NetworkPolicy if it differs from the wanted one.
func (r *ClusterReconciler) closeEtcd(ctx context.Context, c *ramcloudv1.RAMCloudCluster) error {
	one := r.shared.get(c.Namespace)
	if one.policyAt.IsZero() || r.now().Sub(one.policyAt) >= sharedFor {
		policy := &networkingv1.NetworkPolicy{}
		err := r.Uncached.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: specs.EtcdPolicyName}, policy)
		if apierrors.IsNotFound(err) {
			policy, err = nil, nil
		}
		if err != nil {
			return err
		}
		one = r.shared.update(c.Namespace, func(s *shared) { s.policy, s.policyAt = policy, r.now() })
	}
	wanted := specs.EtcdNetworkPolicy(c, r.Namespace)
	if p := one.policy; p != nil && equality.Semantic.DeepEqual(p.Spec, wanted.Spec) {
		for _, owner := range p.OwnerReferences {
			if owner.UID == c.UID {
				return nil
			}
		}
	}
	written := &networkingv1.NetworkPolicy{}
	if err := r.applyShared(ctx, c, wanted, written); err != nil {
		return err
	}
	r.shared.update(c.Namespace, func(s *shared) { s.policy, s.policyAt = written, r.now() })
	return nil
}

func (r *ClusterReconciler) applyShared(ctx context.Context, c *ramcloudv1.RAMCloudCluster, wanted, written client.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return err
	}
	gvk, err := apiutil.GVKForObject(wanted, r.Scheme())
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: prune(fields).(map[string]any)}
	u.SetGroupVersionKind(gvk)
	owner := client.FieldOwner(string(fieldOwner) + "/" + string(c.UID))
	if err := r.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), owner, client.ForceOwnership); err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, written)
}

// forgetCertificates removes the entries of a deleted cluster from the Secret that other clusters still use.
func (r *ClusterReconciler) forgetCertificates(ctx context.Context, cluster types.NamespacedName) error {
	secret := &corev1.Secret{}
	err := r.Uncached.Get(ctx, types.NamespacedName{Namespace: cluster.Namespace, Name: specs.EtcdSecretName}, secret)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	gone := map[string]any{}
	for entry := range specs.EtcdSecretEntries(cluster.Name, secret.Data) {
		gone[specs.EtcdSecretKey(cluster.Name, entry)] = nil
	}
	if len(gone) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"data": gone, "metadata": map[string]any{"resourceVersion": secret.ResourceVersion}})
	if err != nil {
		return err
	}
	if err := r.Patch(ctx, secret, client.RawPatch(types.MergePatchType, patch), fieldOwner); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.shared.update(cluster.Namespace, func(s *shared) { s.secret = secret.Data })
	return nil
}

// securePeers are the members that the others reach by TLS. A member without a claim will start on a new one, which
// will have the note.
func (o *observed) securePeers() map[int32]bool {
	out := map[int32]bool{}
	for index := range specs.WantedEtcd(o.cluster) {
		claim := o.claims[specs.VolumeClaimName(specs.EtcdName(o.cluster.Name, index), 1)]
		if claim == nil {
			claim = specs.EtcdVolumeClaim(o.cluster, index)
		}
		out[index] = claim.Annotations[specs.AnnotationPeerTLS] != ""
	}
	return out
}

// etcdClient is a client of the cluster's etcd, with or without TLS, as its members accept it now.
func (o *observed) etcdClient(members []int32) (etcd.Client, error) {
	var out etcd.Client
	for _, index := range members {
		out.Endpoints = append(out.Endpoints, specs.EtcdClientAddress(o.cluster, index))
	}
	if specs.TLSStage(o.cluster) < plan.TLSUsed {
		return out, nil
	}
	if o.certificates == nil {
		return out, fmt.Errorf("there are no certificates for the etcd")
	}
	config, err := o.certificates.Client(specs.OperatorLeaf())
	out.TLS = config
	return out, err
}

// securePeer makes the other members reach this one by TLS, and notes that on its claim: its next pod accepts only TLS.
func (r *ClusterReconciler) securePeer(ctx context.Context, o *observed, id plan.ID) error {
	if err := r.reach(ctx, o, id.Index); err != nil {
		return err
	}
	claim := memberOf(o, id).claim(o)
	if claim == nil {
		return fmt.Errorf("%s has no volume claim", id)
	}
	changed := claim.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[specs.AnnotationPeerTLS] = "true"
	if err := r.Patch(ctx, changed, client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{}), fieldOwner); err != nil {
		return err
	}
	r.wrote(o, changed)
	o.claims[claim.Name] = changed
	return nil
}

func (r *ClusterReconciler) reach(ctx context.Context, o *observed, index int32) error {
	if r.Reach != nil {
		return r.Reach(ctx, o.cluster, index)
	}
	var all []int32
	for i := range specs.WantedEtcd(o.cluster) {
		all = append(all, i)
	}
	c, err := o.etcdClient(all)
	if err != nil {
		return err
	}
	return c.Reach(ctx, specs.EtcdPeerURL(o.cluster, index, true))
}

// withoutEtcd removes from a decision the creation and deletion of pods of the etcd and its clients.
func withoutEtcd(d plan.Decision) plan.Decision {
	speaks := func(id plan.ID) bool { return id.Kind != plan.Server }
	d.Create = slices.DeleteFunc(slices.Clone(d.Create), speaks)
	d.Restart, d.Secure, d.Rejoin = nil, nil, nil
	return d
}

package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Names of the entries that every set has, in addition to NAME.crt and NAME.key of each leaf.
const (
	// AuthorityCert holds the authorities to trust, oldest first.
	AuthorityCert = "ca.crt"
	// AuthorityKey holds their keys. No pod ever has it.
	AuthorityKey = "ca.key"
)

// Set is all certificates of one cluster's etcd.
type Set struct {
	owner       string
	authorities []pair // oldest first
	leaves      map[string]pair
}

// Read reads the entries of a cluster. Entries of another cluster (owner: the cluster's UID), and unreadable ones, are
// left out, so that they are created again.
func Read(owner string, entries map[string][]byte) *Set {
	s := &Set{owner: owner, leaves: map[string]pair{}}
	certs, err := decodeCerts(entries[AuthorityCert])
	if err != nil {
		return s
	}
	keys, _ := decodeKeys(entries[AuthorityKey]) // an authority can be trusted without its key
	for _, cert := range certs {
		if cert.Subject.SerialNumber != owner || !cert.IsCA || len(cert.SubjectKeyId) < 6 {
			continue
		}
		authority := pair{cert: cert}
		for _, key := range keys {
			if belongs(key, cert) {
				authority.key = key
			}
		}
		s.authorities = append(s.authorities, authority)
	}
	for entry := range entries {
		name, isCert := strings.CutSuffix(entry, ".crt")
		if !isCert || entry == AuthorityCert {
			continue
		}
		if leaf, err := decodePair(entries[entry], entries[name+".key"]); err == nil && s.authorityOf(leaf.cert) != nil {
			s.leaves[name] = leaf
		}
	}
	return s
}

// Entries encodes the set as entries of the Secret, as Read takes them.
func (s *Set) Entries() (map[string][]byte, error) {
	out := map[string][]byte{}
	var certs, keys bytes.Buffer
	for _, authority := range s.authorities {
		certs.Write(encodeCert(authority.cert))
		if authority.key == nil {
			continue
		}
		key, err := encodeKey(authority.key)
		if err != nil {
			return nil, err
		}
		keys.Write(key)
	}
	out[AuthorityCert], out[AuthorityKey] = certs.Bytes(), keys.Bytes()
	for name, leaf := range s.leaves {
		key, err := encodeKey(leaf.key)
		if err != nil {
			return nil, err
		}
		out[name+".crt"], out[name+".key"] = encodeCert(leaf.cert), key
	}
	return out, nil
}

// authorityOf is the authority that signed a certificate; nil: none of these.
func (s *Set) authorityOf(cert *x509.Certificate) *pair {
	for i := range s.authorities {
		if cert.CheckSignatureFrom(s.authorities[i].cert) == nil {
			return &s.authorities[i]
		}
	}
	return nil
}

// Authorities names the authorities in the set, oldest first: a pod that starts now trusts them.
func (s *Set) Authorities() string {
	var out []string
	for _, authority := range s.authorities {
		out = append(out, fingerprint(authority.cert))
	}
	return strings.Join(out, ".")
}

// trustedBy says whether a pod that started when Authorities was `noted` trusts this one.
func trustedBy(noted string, authority pair) bool {
	return slices.Contains(strings.Split(noted, "."), fingerprint(authority.cert))
}

// Renew brings the set up to date: afterwards it has an authority and all leaves, and none of them is in the last third
// of its life. It returns what it changed; nothing if the set was good. pods are the Authorities noted on each running
// pod.
//
// The trusted-signer rule: while an older authority can sign, a new one signs nothing before every pod trusts it.
// Programs read the authorities to trust only at their start, but their certificates whenever they need one.
func (s *Set) Renew(wanted []Leaf, pods []string, now time.Time) (changed []string, err error) {
	before := len(s.authorities)
	s.authorities = slices.DeleteFunc(s.authorities, func(a pair) bool { return !validAt(a.cert, now) })
	if len(s.authorities) < before {
		changed = append(changed, "an authority that is not valid now is removed")
	}
	if newest := len(s.authorities) - 1; newest < 0 || s.authorities[newest].key == nil || !now.Before(renewal(s.authorities[newest].cert)) {
		authority, err := newAuthority(s.owner, now)
		if err != nil {
			return nil, err
		}
		s.authorities = append(s.authorities, authority)
		changed = append(changed, "a new authority "+fingerprint(authority.cert))
	}
	signer, trusted := s.signer(pods)
	for _, leaf := range wanted {
		have, there := s.leaves[leaf.Name]
		if there && !s.stale(have.cert, leaf, signer, trusted, now) {
			continue
		}
		if s.leaves[leaf.Name], err = issue(leaf, signer, now); err != nil {
			return nil, fmt.Errorf("certificate %s: %w", leaf.Name, err)
		}
		changed = append(changed, "certificate "+leaf.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.leaves)) {
		if !slices.ContainsFunc(wanted, func(l Leaf) bool { return l.Name == name }) {
			delete(s.leaves, name)
			changed = append(changed, "certificate "+name+" is removed")
		}
	}
	return changed, nil
}

func validAt(cert *x509.Certificate, now time.Time) bool {
	return !now.Before(cert.NotBefore) && now.Before(cert.NotAfter)
}

// signer is the authority that signs now: the newest one that every pod trusts. If none of those can sign (the key was
// lost), it is the newest one, which not every pod trusts.
func (s *Set) signer(pods []string) (by pair, trusted bool) {
	for _, candidate := range slices.Backward(s.authorities) {
		doubted := slices.ContainsFunc(pods, func(noted string) bool { return !trustedBy(noted, candidate) })
		if candidate.key != nil && !doubted {
			return candidate, true
		}
	}
	return s.authorities[len(s.authorities)-1], false
}

// stale says whether a certificate must be replaced. A certificate that every pod trusts is kept to its end if the new
// one would not be trusted by all.
func (s *Set) stale(cert *x509.Certificate, leaf Leaf, signer pair, trusted bool, now time.Time) bool {
	by := s.authorityOf(cert)
	if by == nil || !validAt(cert, now) || cert.Subject.CommonName != leaf.CommonName || !slices.Equal(hostsOf(cert), sorted(leaf.Hosts)) {
		return true
	}
	return trusted && (!now.Before(renewal(cert)) || fingerprint(by.cert) != fingerprint(signer.cert))
}

func hostsOf(cert *x509.Certificate) []string {
	hosts := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return sorted(hosts)
}

func sorted(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return out
}

// Due is when the next renewal is due.
func (s *Set) Due() time.Time {
	var due time.Time
	sooner := func(at time.Time) {
		if due.IsZero() || at.Before(due) {
			due = at
		}
	}
	if n := len(s.authorities); n > 0 {
		sooner(renewal(s.authorities[n-1].cert))
	}
	for _, leaf := range s.leaves {
		sooner(renewal(leaf.cert))
	}
	return due
}

// Outgrown says why a pod that trusts the authorities in `noted` must be restarted: it does not trust the newest
// authority, which will soon have to sign. Empty: no restart is needed.
func (s *Set) Outgrown(noted string, now time.Time) string {
	n := len(s.authorities)
	if n < 2 || trustedBy(noted, s.authorities[n-1]) {
		return ""
	}
	for _, old := range s.authorities[:n-1] {
		if !now.Before(old.cert.NotAfter.Add(-AuthorityLife / 6)) {
			return "it does not trust the new authority, and the old one ends at " + old.cert.NotAfter.Format(time.RFC3339)
		}
	}
	for _, leaf := range s.leaves {
		if !now.Before(leaf.cert.NotAfter.Add(-Life / 6)) {
			return "it does not trust the new authority, and a certificate of the old one ends at " + leaf.cert.NotAfter.Format(time.RFC3339)
		}
	}
	return ""
}

// Until is the end of validity of the certificate of this name; the zero time: there is none.
func (s *Set) Until(name string) time.Time {
	if leaf, ok := s.leaves[name]; ok {
		return leaf.cert.NotAfter
	}
	return time.Time{}
}

// Client is the TLS configuration of a client of the etcd that shows the certificate of this name.
func (s *Set) Client(name string) (*tls.Config, error) {
	leaf, ok := s.leaves[name]
	if !ok {
		return nil, fmt.Errorf("there is no certificate %s", name)
	}
	pool := x509.NewCertPool()
	for _, authority := range s.authorities {
		pool.AddCert(authority.cert)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.cert.Raw}, PrivateKey: leaf.key}}}, nil
}

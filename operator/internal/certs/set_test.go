package certs

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	now    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	wanted = []Leaf{
		{Name: "etcd-0", CommonName: Member, Hosts: []string{"demo-etcd-0.default.svc", "127.0.0.1"}},
		{Name: "etcd-0-client", CommonName: Member},
		{Name: "coordinator", CommonName: "coordinator"},
	}
)

func renew(t *testing.T, s *Set, pods []string, at time.Time) []string {
	t.Helper()
	changed, err := s.Renew(wanted, pods, at)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func entries(t *testing.T, s *Set) map[string][]byte {
	t.Helper()
	out, err := s.Entries()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fresh is a new set, read back from its entries.
func fresh(t *testing.T) *Set {
	t.Helper()
	s := Read("uid", nil)
	if changed := renew(t, s, nil, now); len(changed) != 1+len(wanted) {
		t.Fatalf("made %q", changed)
	}
	return Read("uid", entries(t, s))
}

func TestAGoodSetIsLeftAlone(t *testing.T) {
	s := fresh(t)
	for _, at := range []time.Time{now, now.Add(Life / 2)} {
		if changed := renew(t, s, []string{s.Authorities()}, at); len(changed) != 0 {
			t.Errorf("at %s: %q", at, changed)
		}
	}
	if due := s.Due(); due.Before(now.Add(Life/3)) || due.After(now.Add(Life/3*2)) {
		t.Errorf("due at %s", due)
	}
	if until := s.Until("coordinator"); !until.Equal(now.Add(Life)) || !s.Until("nobody").IsZero() {
		t.Errorf("until %s", until)
	}
}

func TestRenewedBeforeTheEnd(t *testing.T) {
	s := fresh(t)
	at := s.Due()
	if changed := renew(t, s, []string{s.Authorities()}, at); !slices.Equal(changed, []string{"certificate etcd-0", "certificate etcd-0-client", "certificate coordinator"}) {
		t.Errorf("%q", changed)
	}
	if until := s.Until("etcd-0"); !until.Equal(at.Add(Life)) {
		t.Errorf("until %s", until)
	}
}

// Only certificates that are missing, damaged, of another authority, or for other names are made again.
func TestWhatIsWrongIsMadeAgain(t *testing.T) {
	other := Read("uid", nil)
	renew(t, other, nil, now)
	for name, spoil := range map[string]func(map[string][]byte){
		"missing":     func(e map[string][]byte) { delete(e, "etcd-0.crt") },
		"without key": func(e map[string][]byte) { delete(e, "etcd-0.key") },
		"text":        func(e map[string][]byte) { e["etcd-0.crt"] = []byte("text") },
		"another key": func(e map[string][]byte) { e["etcd-0.key"] = e["coordinator.key"] },
		"a stranger's": func(e map[string][]byte) {
			e["etcd-0.crt"], e["etcd-0.key"] = entries(t, other)["etcd-0.crt"], entries(t, other)["etcd-0.key"]
		},
		"a client's": func(e map[string][]byte) {
			e["etcd-0.crt"], e["etcd-0.key"] = e["coordinator.crt"], e["coordinator.key"]
		},
	} {
		have := entries(t, fresh(t))
		spoil(have)
		s := Read("uid", have)
		if changed := renew(t, s, []string{s.Authorities()}, now); !slices.Equal(changed, []string{"certificate etcd-0"}) {
			t.Errorf("%s: %q", name, changed)
		}
	}
	s := fresh(t)
	s.leaves["etcd-7"] = s.leaves["etcd-0"]
	if changed := renew(t, s, nil, now); !slices.Equal(changed, []string{"certificate etcd-7 is removed"}) {
		t.Errorf("%q", changed)
	}
}

// A deleted cluster of the same name has another UID; its entries are not trusted.
func TestAFormerClustersAuthorityIsNotOurs(t *testing.T) {
	left := entries(t, fresh(t))
	s := Read("another uid", left)
	if s.Authorities() != "" || len(s.leaves) != 0 {
		t.Fatalf("taken over: %s, %d", s.Authorities(), len(s.leaves))
	}
	if changed := renew(t, s, nil, now); len(changed) != 1+len(wanted) {
		t.Errorf("%q", changed)
	}
}

// The trusted-signer rule, through the whole life of two authorities.
func TestANewAuthoritySignsOnlyWhenAllTrustIt(t *testing.T) {
	s := fresh(t)
	old := s.Authorities()
	at := s.authorities[0].cert.NotBefore.Add(AuthorityLife / 3 * 2).Add(time.Hour)
	signedBy := func() string { return fingerprint(s.authorityOf(s.leaves["etcd-0"].cert).cert) }
	if renew(t, s, []string{old, old}, at); s.Authorities() == old || !strings.HasPrefix(s.Authorities(), old+".") || signedBy() != old {
		t.Fatalf("%s was %s; signed by %s", s.Authorities(), old, signedBy())
	}
	both := s.Authorities()
	for range 3 { // a pod was restarted, one not
		if changed := renew(t, s, []string{both, old}, at); len(changed) != 0 {
			t.Fatalf("%q", changed)
		}
	}
	if renew(t, s, []string{both, both}, at); signedBy() == old {
		t.Error("still signed by the old one")
	}
	if renew(t, s, []string{both, both}, at); s.Authorities() != both {
		t.Error("clients still have what the old one signed")
	}
	if renew(t, s, []string{both}, now.Add(AuthorityLife)); s.Authorities() == both || signedBy() == old {
		t.Errorf("an authority that expired is kept: %s", s.Authorities())
	}
}

// Pods are restarted before their trusted authorities expire, and not as soon as there is a newer one.
func TestOutgrownAuthorities(t *testing.T) {
	s := fresh(t)
	old := s.Authorities()
	at := s.authorities[0].cert.NotBefore.Add(AuthorityLife / 3 * 2).Add(time.Hour)
	renew(t, s, []string{old}, at)
	if why := s.Outgrown(old, at); why != "" {
		t.Errorf("at once: %s", why)
	}
	if late := now.Add(AuthorityLife / 6 * 5); s.Outgrown(old, late) == "" || s.Outgrown(s.Authorities(), late) != "" {
		t.Errorf("late: %q, %q", s.Outgrown(old, late), s.Outgrown(s.Authorities(), late))
	}
	have := entries(t, fresh(t))
	delete(have, AuthorityKey)
	s = Read("uid", have)
	old = s.Authorities()
	renew(t, s, []string{old}, now)
	if why := s.Outgrown(old, now.Add(Life/2)); why != "" {
		t.Errorf("at once: %s", why)
	}
	if s.Outgrown(old, now.Add(Life/6*5+time.Hour)) == "" {
		t.Error("what the lost key signed ends, and nobody trusts the next")
	}
}

// An authority without its key is still trusted, and its certificates are kept, until every pod trusts the
// next one.
func TestALostKeyHurtsNobody(t *testing.T) {
	have := entries(t, fresh(t))
	delete(have, AuthorityKey)
	s := Read("uid", have)
	old := s.Authorities()
	if changed := renew(t, s, []string{old}, now); len(changed) != 1 || !strings.HasPrefix(changed[0], "a new authority") {
		t.Fatalf("%q", changed)
	}
	late := s.leaves["etcd-0"].cert.NotAfter.Add(-time.Hour)
	if changed := renew(t, s, []string{old}, late); len(changed) != 0 {
		t.Errorf("replaced by what pods do not trust: %q", changed)
	}
	if changed := renew(t, s, []string{s.Authorities()}, now); len(changed) != len(wanted) {
		t.Errorf("%q", changed)
	}
}

// The maker's clock was ahead, so the certificate is not valid yet for others.
func TestAnAuthorityFromTheFutureIsReplaced(t *testing.T) {
	s := fresh(t)
	old := s.Authorities()
	if renew(t, s, []string{old}, now.Add(-2*backdated)); s.Authorities() == old || strings.Contains(s.Authorities(), ".") {
		t.Errorf("%s was %s", s.Authorities(), old)
	}
	s = fresh(t)
	if changed := renew(t, s, nil, now.Add(-backdated/2)); len(changed) != 0 {
		t.Errorf("half an hour of skew: %q", changed)
	}
}

// handshake connects a client to a server that checks it, as etcd does.
func handshake(t *testing.T, s *Set, server, client string) error {
	t.Helper()
	here, there := net.Pipe()
	pool := x509.NewCertPool()
	for _, a := range s.authorities {
		pool.AddCert(a.cert)
	}
	leaf := s.leaves[server]
	clock := func() time.Time { return now }
	listens := tls.Server(here, &tls.Config{ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, Time: clock, MinVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.cert.Raw}, PrivateKey: leaf.key}}})
	config, err := s.Client(client)
	if err != nil {
		t.Fatal(err)
	}
	config.Time, config.ServerName = clock, "demo-etcd-0.default.svc"
	dials := tls.Client(there, config)
	ended := make(chan error, 1)
	go func() { ended <- dials.Handshake(); _ = there.Close() }()
	served := listens.Handshake()
	_ = here.Close()
	if err := <-ended; err != nil {
		return err
	}
	return served
}

func TestWhatItIsFor(t *testing.T) {
	s := fresh(t)
	for _, client := range []string{"coordinator", "etcd-0-client"} {
		if err := handshake(t, s, "etcd-0", client); err != nil {
			t.Errorf("%s: %v", client, err)
		}
	}
	if err := handshake(t, s, "etcd-0", "etcd-0"); err == nil {
		t.Error("a server's certificate opens a connection")
	}
	if err := handshake(t, s, "coordinator", "coordinator"); err == nil {
		t.Error("a coordinator can pass for etcd")
	}
	if _, err := s.Client("nobody"); err == nil {
		t.Error("nobody has a certificate")
	}
	if n := len(s.leaves["etcd-0-client"].cert.DNSNames); n != 0 {
		t.Errorf("etcd looks up the %d names of a client's certificate", n)
	}
}

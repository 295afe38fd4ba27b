// Package certs makes the certificates of a managed etcd: an authority for each cluster, and what it signs for the
// members of the etcd and their clients. Apart from randomness it is pure: it reads and returns the entries of a
// Secret.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	day = 24 * time.Hour
	// AuthorityLife is for how long an authority is valid.
	AuthorityLife = 3650 * day
	// Life is for how long what it signs is valid.
	Life = 365 * day
	// backdated: certificates begin this much earlier, because clocks of nodes differ and a certificate must not begin in
	// the future.
	backdated = time.Hour
)

// Member is the common name of every certificate of a member of etcd: members accept each other by it, so that a client's
// certificate, which the same authority signs, opens no peer connection.
const Member = "etcd-member"

// Leaf is a certificate that is wanted.
type Leaf struct {
	Name       string // of its entries
	CommonName string
	// Hosts are the names and addresses of a server; none for a client. (etcd would look up names in a client's
	// certificate.)
	Hosts []string
}

// pair is a certificate with its key. The key may be nil for an authority whose key was lost.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// renewal is when two thirds of a certificate's life are over.
func renewal(c *x509.Certificate) time.Time {
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 3 * 2)
}

// fingerprint names an authority in a few letters.
func fingerprint(c *x509.Certificate) string { return hex.EncodeToString(c.SubjectKeyId)[:12] }

func newAuthority(owner string, now time.Time) (pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "ramcloud-etcd-authority", SerialNumber: owner},
		NotBefore:             now.Add(-backdated),
		NotAfter:              now.Add(AuthorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}
	return sign(template, pair{})
}

// issue creates the certificate that `leaf` describes; it is never valid for longer than its authority.
func issue(leaf Leaf, by pair, now time.Time) (pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: leaf.CommonName},
		NotBefore:             now.Add(-backdated),
		NotAfter:              now.Add(Life),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	if template.NotAfter.After(by.cert.NotAfter) {
		template.NotAfter = by.cert.NotAfter
	}
	if len(leaf.Hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, host := range leaf.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return sign(template, by)
}

// sign creates a key and its certificate; without an authority the certificate is self-signed.
func sign(template *x509.Certificate, by pair) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return pair{}, err
	}
	parent, signer := by.cert, by.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return pair{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return pair{cert: cert, key: key}, err
}

func encodeCert(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

func decodeCerts(text []byte) (out []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, cert)
	}
	return out, nil
}

func decodeKeys(text []byte) (out []crypto.Signer, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		key, ok := parsed.(*ecdsa.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("a key is a %T; accepted: an ECDSA key", parsed)
		}
		out = append(out, key)
	}
	return out, nil
}

// decodePair reads an entry: one certificate with its key.
func decodePair(cert, key []byte) (pair, error) {
	certs, err := decodeCerts(cert)
	if err != nil {
		return pair{}, err
	}
	keys, err := decodeKeys(key)
	if err != nil {
		return pair{}, err
	}
	if len(certs) != 1 || len(keys) != 1 || !belongs(keys[0], certs[0]) {
		return pair{}, errors.New("there is not one certificate with its key")
	}
	return pair{cert: certs[0], key: keys[0]}, nil
}

func belongs(key crypto.Signer, cert *x509.Certificate) bool {
	public, ok := key.Public().(*ecdsa.PublicKey)
	return ok && public.Equal(cert.PublicKey)
}

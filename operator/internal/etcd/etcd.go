// Package etcd changes which members an etcd has, through the JSON form of its API.
package etcd

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// patience is how long one call may take.
const patience = 5 * time.Second

// Client talks to the members of one etcd.
type Client struct {
	Endpoints []string // host:port
	// TLS is the TLS configuration; nil: plain connections.
	TLS *tls.Config
}

// transport ignores proxies in the environment, because the members are in the cluster. A connection is used for one
// call only, because the next call may have other certificates.
func (c Client) transport() *http.Transport {
	return &http.Transport{TLSClientConfig: c.TLS, DisableKeepAlives: true}
}

// member is a member in etcd's list. A member that was added and has not started yet has no name.
type member struct {
	ID       string
	Name     string
	PeerURLs []string
}

// Rejoin lets the member with this peer URL, which lost its data, start again without any: it is removed from the etcd
// and added as a new member. (A member that lost its votes must not return under its old identity.) Afterwards it must
// be started as a member of an existing etcd. Rejoin can be repeated after a failure at any step; a member that was
// added and has not started yet is left unchanged. The client's endpoints are the other members, which must form a
// working majority.
func (c Client) Rejoin(ctx context.Context, peerURL string) error {
	endpoint, old, err := c.find(ctx, peerURL)
	if err != nil {
		return err
	}
	if old != nil {
		if old.Name == "" && slices.Equal(old.PeerURLs, []string{peerURL}) {
			return nil // added already
		}
		if err := c.post(ctx, endpoint, "/v3/cluster/member/remove", map[string]string{"ID": old.ID}, &struct{}{}); err != nil {
			return fmt.Errorf("putting out member %s: %w", old.Name, err)
		}
	}
	if err := c.post(ctx, endpoint, "/v3/cluster/member/add", map[string]any{"peerURLs": []string{peerURL}}, &struct{}{}); err != nil {
		return fmt.Errorf("adding the member at %s: %w", peerURL, err)
	}
	return nil
}

// Reach changes the peer URL of the member with this host and port, for all members. Idempotent.
func (c Client) Reach(ctx context.Context, peerURL string) error {
	endpoint, member, err := c.find(ctx, peerURL)
	switch {
	case err != nil:
		return err
	case member == nil:
		return fmt.Errorf("the etcd has no member at %s", peerURL)
	case slices.Equal(member.PeerURLs, []string{peerURL}):
		return nil
	}
	change := map[string]any{"ID": member.ID, "peerURLs": []string{peerURL}}
	if err := c.post(ctx, endpoint, "/v3/cluster/member/update", change, &struct{}{}); err != nil {
		return fmt.Errorf("reaching member %s at %s: %w", member.Name, peerURL, err)
	}
	return nil
}

// find returns the member with this URL's host and port (nil: none), and an endpoint that answers.
func (c Client) find(ctx context.Context, peerURL string) (endpoint string, found *member, err error) {
	var list struct{ Members []member }
	if endpoint, err = c.first(ctx, "/v3/cluster/member/list", struct{}{}, &list); err != nil {
		return "", nil, err
	}
	for i, m := range list.Members {
		if slices.ContainsFunc(m.PeerURLs, func(url string) bool { return hostOf(url) == hostOf(peerURL) }) {
			return endpoint, &list.Members[i], nil
		}
	}
	return endpoint, nil, nil
}

// hostOf is a URL without its scheme.
func hostOf(url string) string {
	_, host, _ := strings.Cut(url, "://")
	return host
}

// first asks the endpoints one after the other until one answers, and returns that one.
func (c Client) first(ctx context.Context, path string, request, answer any) (string, error) {
	var errs []error
	for _, endpoint := range c.Endpoints {
		err := c.post(ctx, endpoint, path, request, answer)
		if err == nil {
			return endpoint, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

func (c Client) post(ctx context.Context, endpoint, path string, request, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	scheme, transport := "http://", c.transport()
	if c.TLS != nil {
		scheme = "https://"
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+endpoint+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(asked)
	if err != nil {
		return fmt.Errorf("etcd at %s: %w", endpoint, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("etcd at %s: %w", endpoint, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd at %s: %s: %.200s", endpoint, response.Status, text)
	}
	return json.Unmarshal(text, answer)
}

// Package etcd changes which members an etcd has, through the JSON form of its API.
package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// patience is how long one call may take.
const patience = 5 * time.Second

// direct asks without a proxy, whatever the environment names: the members are in the cluster.
var direct = &http.Client{Transport: &http.Transport{}}

// member is one as etcd lists it. A member that was added and has not started yet has no name.
type member struct {
	ID       string
	Name     string
	PeerURLs []string
}

// Rejoin lets the member with this peer URL, which lost its data, start again without any: it is put out of the
// etcd and added as a new one. (A member that forgot what it voted for must not come back under its old identity.)
// Afterwards it has to be started as a member of an existing etcd. It can be asked again after a failure at any step;
// a member that was added and has not started yet is left as it is. endpoints are host:port of the others, which
// must be a majority that works.
func Rejoin(ctx context.Context, endpoints []string, peerURL string) error {
	var list struct{ Members []member }
	endpoint, err := first(ctx, endpoints, "/v3/cluster/member/list", struct{}{}, &list)
	if err != nil {
		return err
	}
	if at := slices.IndexFunc(list.Members, func(m member) bool { return slices.Contains(m.PeerURLs, peerURL) }); at >= 0 {
		old := list.Members[at]
		if old.Name == "" {
			return nil // added already
		}
		if err := post(ctx, endpoint, "/v3/cluster/member/remove", map[string]string{"ID": old.ID}, &struct{}{}); err != nil {
			return fmt.Errorf("putting out member %s: %w", old.Name, err)
		}
	}
	if err := post(ctx, endpoint, "/v3/cluster/member/add", map[string]any{"peerURLs": []string{peerURL}}, &struct{}{}); err != nil {
		return fmt.Errorf("adding the member at %s: %w", peerURL, err)
	}
	return nil
}

// first asks one after the other until one answers, and gives that.
func first(ctx context.Context, endpoints []string, path string, request, answer any) (string, error) {
	var errs []error
	for _, endpoint := range endpoints {
		err := post(ctx, endpoint, path, request, answer)
		if err == nil {
			return endpoint, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

func post(ctx context.Context, endpoint, path string, request, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+endpoint+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := direct.Do(asked)
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

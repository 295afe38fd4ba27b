package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Version decides which processes may run together; patch versions do not matter.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// after says by how many minor versions v is after w; false if they are not comparable.
func (v Version) after(w Version) (steps int, comparable bool) {
	return v.Minor - w.Minor, v.Major == w.Major
}

// ParseVersion reads a semantic version, with or without a leading v and the suffix of git describe.
func ParseVersion(text string) (Version, bool) {
	if text == "" {
		return Version{}, false
	}
	text = strings.TrimPrefix(text, "v")
	if end := strings.IndexAny(text, "-+"); end >= 0 {
		text = text[:end]
	}
	var numbers [3]uint64
	for i := range numbers {
		var number string
		number, text, _ = strings.Cut(text, ".")
		n, err := strconv.ParseUint(number, 10, 20)
		if err != nil {
			return Version{}, false
		}
		numbers[i] = n
	}
	return Version{int(numbers[0]), int(numbers[1])}, text == ""
}

// ImageVersion reads the version from an image's tag.
func ImageVersion(image string) (Version, bool) {
	image, _, _ = strings.Cut(image, "@")
	slash := strings.LastIndex(image, "/")
	name, tag, _ := strings.Cut(image[slash+1:], ":")
	if name == "" {
		return Version{}, false
	}
	return ParseVersion(tag)
}

// imageName is an image without tag and digest.
func imageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	slash := strings.LastIndex(image, "/")
	name, _, _ := strings.Cut(image[slash+1:], ":")
	return image[:slash+1] + name
}

// Process is a running member.
type Process struct {
	Name  string
	Image string
	// Says is the version that the process itself reports; empty: not known.
	Says string
}

// version is the version that the process reports, otherwise that of its image's tag.
func (p Process) version() (Version, bool) {
	if v, known := ParseVersion(p.Says); known {
		return v, true
	}
	return ImageVersion(p.Image)
}

// Running are the processes of a cluster, and the version of its operator.
type Running struct {
	Operator  string
	Processes map[Kind][]Process
}

// tagsAreVersions: no process contradicts its image's tag. If images are numbered otherwise, their tags are
// not checked.
func (r Running) tagsAreVersions() bool {
	for _, kind := range []Kind{Coordinator, Server} {
		for _, p := range r.Processes[kind] {
			says, known := ParseVersion(p.Says)
			tagged, parsed := ImageVersion(p.Image)
			if known && parsed && says != tagged {
				return false
			}
		}
	}
	return true
}

// Skew says whether members of the kind may be made from the image beside what runs (the skew rule,
// docs/operating/upgrades.md): refused says why not, waits what must be done first. Invalid versions are not checked.
func (r Running) Skew(kind Kind, image string) (refused, waits string) {
	if kind == Etcd {
		return r.etcdSkew(image), ""
	}
	target, known := ImageVersion(image)
	if !known || !r.tagsAreVersions() {
		return "", ""
	}
	if operator, known := ParseVersion(r.Operator); known && operator != (Version{}) {
		steps, comparable := operator.after(target)
		if !comparable || steps < 0 || steps > 1 {
			return fmt.Sprintf("image %s is version %s, and the operator %s supports only its own version and the one before", image, target, operator), ""
		}
	}
	for _, other := range []Kind{Coordinator, Server} {
		for _, p := range r.Processes[other] {
			v, known := p.version()
			if !known {
				continue
			}
			steps, comparable := target.after(v)
			if kind == Server && other == Coordinator && steps > 0 && comparable {
				waits = join(waits, fmt.Sprintf("%s is still version %s, and coordinators go before servers", p.Name, v))
				continue
			}
			if !comparable || steps < -1 || steps > 1 {
				refused = join(refused, fmt.Sprintf("%s is version %s", p.Name, v))
			}
		}
	}
	if refused != "" {
		refused = fmt.Sprintf("image %s is version %s, and only a version and the one before may run at the same time: %s", image, target, refused)
	}
	return refused, waits
}

// etcdSkew compares images of one name: members may go up by one minor version, and never down, because etcd
// cannot read the data of a later minor version.
func (r Running) etcdSkew(image string) string {
	target, known := ImageVersion(image)
	if !known {
		return ""
	}
	var bad []string
	for _, p := range r.Processes[Etcd] {
		v, known := ImageVersion(p.Image)
		if !known || imageName(p.Image) != imageName(image) {
			continue
		}
		if steps, comparable := target.after(v); !comparable || steps < 0 || steps > 1 {
			bad = append(bad, fmt.Sprintf("%s is version %s", p.Name, v))
		}
	}
	if len(bad) == 0 {
		return ""
	}
	slices.Sort(bad)
	return fmt.Sprintf("image %s is version %s, and members of etcd go up by one minor version at a time, never down: %s", image, target, strings.Join(bad, "; "))
}

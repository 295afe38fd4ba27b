# A Kubernetes node for kind, from a Debian root file system and programs built from Go modules.
# The folder it is built in is put together by node-image.sh.
ARG BASE
FROM ${BASE}
COPY files/ /
COPY bin/ /
# As in kind's own base image: no service that expects a machine, none but these three started.
RUN chmod 755 /kind /kind/bin /kind/bin/* /usr/local/bin/* /usr/local/sbin/* \
 && find /lib/systemd/system/sysinit.target.wants/ -name systemd-tmpfiles-setup.service -delete \
 && rm -f /lib/systemd/system/multi-user.target.wants/* /etc/systemd/system/*.wants/* \
    /lib/systemd/system/local-fs.target.wants/* /lib/systemd/system/basic.target.wants/* \
    /lib/systemd/system/sockets.target.wants/*udev* /lib/systemd/system/sockets.target.wants/*initctl* \
 && echo ReadKMsg=no >>/etc/systemd/journald.conf \
 && mkdir -p /etc/kubernetes/manifests /etc/cni/net.d /opt/cni/bin && rm -f /etc/cni/net.d/* \
 && cd /usr/lib/cni && cp host-local loopback ptp portmap bridge /opt/cni/bin/ \
 && systemctl enable kubelet.service containerd.service undo-mount-hacks.service \
 && systemctl mask systemd-binfmt.service \
 && ctr oci spec | jq 'del(.process.rlimits)' >/etc/containerd/cri-base.json
ENV container=docker
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]

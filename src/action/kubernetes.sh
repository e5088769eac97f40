# A node of Kubernetes: what runs on it is the scheduler's, who starts elsewhere what disappears here, and here what was
# stopped. kubelet, or what has it built in (k3s, MicroK8s), which keeps pods in cgroups of that name. In a pod, which has
# such a cgroup itself, those tell nothing.
is_kubernetes_node() {
  [ ! -e /etc/kubernetes/kubelet.conf ] || return 0
  for _file in /proc/[0-9]*/comm; do
    { read -r _name <"$_file"; } 2>/dev/null && [ "$_name" = kubelet ] && return 0
  done
  ! grep -q kubepods /proc/1/cgroup 2>/dev/null && grep -q kubepods /proc/[0-9]*/cgroup 2>/dev/null
}

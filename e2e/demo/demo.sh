#!/bin/sh
# Runs in the guest. The disk of k3s is slow, etcd runs on it as k3s.service, and a pod is about to be busy.
set -eu
agent=/usr/local/bin/ioprio-agent
cp /share/ioprio-agent $agent

say() { printf '\n==> %s\n' "$*"; }
show() {
	printf '\n$ ioprio-agent %s\n' "$*"
	$agent "$@" && status=0 || status=$?
	printf '(exit status %d)\n' $status
}

# measure NAME LOAD: etcd's kind of write, one every 10 ms, in etcd's own cgroup, with or without the pod's load beside it.
measure() {
	if [ "$2" = busy ]; then
		systemd-run --quiet --wait --collect --unit="load-$1" --slice=kubepods-besteffort.slice \
			fio --name=load --directory=/var/lib/rancher --size=64m --rw=randwrite --bs=64k --direct=1 --ioengine=libaio --iodepth=32 \
			--numjobs=4 --time_based --runtime=25 --group_reporting --output-format=json --output="/share/load-$1.json" &
		until [ "$(awk '$3 == "sda" { print $12 }' /proc/diskstats)" -gt 3 ]; do
			sleep 0.2 # the load is there when the disk has a queue
		done
	fi
	sh -c 'echo $$ >/sys/fs/cgroup/system.slice/k3s.service/cgroup.procs; exec "$@"' sh \
		fio --name=wal --directory=/var/lib/rancher/k3s/server/db --size=16m --rw=write --bs=2300 --fdatasync=1 --ioengine=sync \
		--rate_iops=100 --time_based --runtime=15 --output-format=json --output="/share/wal-$1.json"
	if [ "$2" = busy ]; then
		wait # the load ends by itself: stopped, fio would print no result
	fi
}

systemctl start k3s.service
systemd-run --quiet --unit=pod --slice=kubepods-besteffort.slice sleep infinity
show disks
show verify
say "measuring etcd's fdatasync on the idle disk (15 s)"
measure idle idle
say "measuring it beside a busy pod, as the node is (15 s)"
measure before busy
show plan
show apply
show verify
say "measuring it beside the same pod, arbitrated (15 s)"
measure after busy

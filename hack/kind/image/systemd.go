package image

// undone are the parts of Debian's systemd set-up that make no sense in a
// container, the same that kind removes.
var undone = []string{
	"etc/systemd/system/*.wants/*",
	"etc/machine-id",
	"usr/lib/systemd/system/basic.target.wants/*",
	"usr/lib/systemd/system/local-fs.target.wants/*",
	"usr/lib/systemd/system/multi-user.target.wants/*",
	"usr/lib/systemd/system/sockets.target.wants/*initctl*",
	"usr/lib/systemd/system/sockets.target.wants/*udev*",
	"usr/lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
}

// masked units touch the kernel or the hardware, which are the host's.
var masked = []string{
	"dev-hugepages.mount",
	"getty.target",
	"modprobe@configfs.service",
	"modprobe@dm_mod.service",
	"modprobe@drm.service",
	"modprobe@efi_pstore.service",
	"modprobe@fuse.service",
	"modprobe@loop.service",
	"sys-fs-fuse-connections.mount",
	"sys-kernel-config.mount",
	"sys-kernel-debug.mount",
	"sys-kernel-tracing.mount",
	"systemd-binfmt.service",
	"systemd-logind.service",
	"systemd-networkd.service",
	"systemd-resolved.service",
	"systemd-timesyncd.service",
	"systemd-udevd.service",
}

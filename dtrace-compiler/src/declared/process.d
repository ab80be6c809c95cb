struct running;

typedef struct psinfo {
	pid_t pr_pid;
	pid_t pr_ppid;
	uid_t pr_uid;
	gid_t pr_gid;
	uintptr_t pr_addr;
	string pr_fname;
	string pr_psargs;
	size_t pr_arglen;
	int pr_jailid;
} psinfo_t;

typedef struct lwpsinfo {
	id_t pr_lwpid;
	uintptr_t pr_addr;
} lwpsinfo_t;

typedef struct cpuinfo {
	processorid_t cpu_id;
	psetid_t cpu_pset;
	chipid_t cpu_chip;
	lgrp_id_t cpu_lgrp;
} cpuinfo_t;

translator psinfo_t < struct running *R > {
	pr_pid = pid;
	pr_ppid = ppid;
	pr_uid = uid;
	pr_gid = gid;
	pr_addr = (uintptr_t)curthread;
	pr_fname = execname;
	pr_psargs = execargs;
	pr_arglen = strlen(execargs);
	pr_jailid = jid;
};

translator lwpsinfo_t < struct running *R > {
	pr_lwpid = tid;
	pr_addr = (uintptr_t)curthread;
};

#pragma D attributes Stable/Stable/Common curpsinfo
inline psinfo_t *curpsinfo = xlate <psinfo_t *>((struct running *)NULL);

#pragma D attributes Stable/Stable/Common curlwpsinfo
inline lwpsinfo_t *curlwpsinfo = xlate <lwpsinfo_t *>((struct running *)NULL);

/* No host tells of more than CPUs: each is a chip, and all are in the set and the group of latency that are there at least. */
translator cpuinfo_t < struct running *R > {
	cpu_id = cpu;
	cpu_pset = 0;
	cpu_chip = cpu;
	cpu_lgrp = 0;
};

#pragma D attributes Stable/Stable/Common curcpu
inline cpuinfo_t *curcpu = xlate <cpuinfo_t *>((struct running *)NULL);

#pragma D attributes Stable/Stable/Common pset
inline psetid_t pset = curcpu->cpu_pset;

#pragma D attributes Stable/Stable/Common chip
inline chipid_t chip = curcpu->cpu_chip;

#pragma D attributes Stable/Stable/Common lgrp
inline lgrp_id_t lgrp = curcpu->cpu_lgrp;

/* As illumos says of a directory whose path it does not know. */
#pragma D attributes Stable/Stable/Common cwd
inline string cwd = "<unknown>";

#pragma D attributes Stable/Stable/Common root
inline string root = "<unknown>";

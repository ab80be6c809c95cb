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

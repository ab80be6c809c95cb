/*
 * What a module for illumos needs of the kernel's headers, in our own words: sys/modctl.h, sys/systm.h,
 * sys/sdt.h, sys/cmn_err.h, LP64.
 */

typedef unsigned long uintptr;
typedef unsigned long size;

struct modlinkage {
	int rev;		/* MODREV_1 */
	void *linkage[7];	/* ends with a null pointer */
};

struct modlmisc {
	void *ops;
	const char *linkinfo;
};

struct modinfo;
struct mod_ops { void *functions[3]; };

extern struct mod_ops mod_miscops;
int mod_install(struct modlinkage *);
int mod_remove(struct modlinkage *);
int mod_info(struct modlinkage *, struct modinfo *);
void cmn_err(int, const char *, ...);

#define MODREV_1 1
#define EBUSY 16
#define CE_CONT 0
#define CE_NOTE 1

/* The module is a miscellaneous one: its linkage, and _info. */
#define MISC_MODULE(info)						\
	static struct modlmisc misc = { &mod_miscops, info };		\
	static struct modlinkage linkage = { MODREV_1, { &misc } };	\
	int _info(struct modinfo *modinfo)				\
	{								\
		return (mod_info(&linkage, modinfo));			\
	}

/* What it depends on: the link step makes a dynamic section of it. */
#define DEPENDS_ON(name)						\
	__asm__(".pushsection .sdt_depends,\"\",@progbits\n"		\
	    ".asciz \"" name "\"\n.popsection")

/*
 * One object of every structure that modules in Rust share with the kernel, for their layouts to be read
 * from the debugging information.
 */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/proc.h>
#include <sys/imgact.h>
#include <sys/lock.h>
#include <sys/sx.h>
#include <sys/sdt.h>
#include <machine/frame.h>

/* Debugging information tells sizes and offsets, but no alignment. */
#define LAYOUT(type, name)                                                     \
	type layout_of_##name;                                                 \
	const unsigned long alignment_of_##name = _Alignof(type)

LAYOUT(struct sdt_provider, sdt_provider);
LAYOUT(struct sdt_probe, sdt_probe);
LAYOUT(struct sdt_argtype, sdt_argtype);
#ifdef _SDT_TRACEPOINT_SET
LAYOUT(struct sdt_tracepoint, sdt_tracepoint);
#endif
LAYOUT(struct mod_metadata, mod_metadata);
LAYOUT(struct mod_depend, mod_depend);
LAYOUT(struct mod_version, mod_version);
LAYOUT(struct moduledata, moduledata);
LAYOUT(struct sysinit, sysinit);
LAYOUT(struct sx, sx);
LAYOUT(struct trapframe, trapframe);
LAYOUT(struct image_params, image_params);
LAYOUT(struct image_args, image_args);

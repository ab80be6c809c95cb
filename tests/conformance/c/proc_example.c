/* The example module, in C: provider proc, whose probe exec-success fires on every exec. */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/eventhandler.h>
#include <sys/imgact.h>
#include <sys/sdt.h>

SDT_PROVIDER_DEFINE(proc);
SDT_PROBE_DEFINE1(proc, , , exec__success, "char *");

static eventhandler_tag tag;

static void
on_exec(void *arg __unused, struct proc *p __unused, struct image_params *image)
{
	const char *path = image->args->fname;

	SDT_PROBE1(proc, , , exec__success, (path != NULL ? path : ""));
}

static int
on_event(module_t module __unused, int event, void *arg __unused)
{
	switch (event) {
	case MOD_LOAD:
		tag = EVENTHANDLER_REGISTER(process_exec, on_exec, NULL,
		    EVENTHANDLER_PRI_ANY);
		return (0);
	case MOD_UNLOAD:
		EVENTHANDLER_DEREGISTER(process_exec, tag);
		return (0);
	case MOD_QUIESCE:
	case MOD_SHUTDOWN:
		return (0);
	default:
		return (EOPNOTSUPP);
	}
}

static moduledata_t data = { "proc_example", on_event, NULL };

DECLARE_MODULE(proc_example, data, SI_SUB_DRIVERS, SI_ORDER_MIDDLE);
MODULE_VERSION(proc_example, 1);

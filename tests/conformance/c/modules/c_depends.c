/* Depends on another module, whose functions it calls. */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/kernel.h>
#include <sys/module.h>

extern int other_start(int);
extern void other_stop(void);

static int
on_event(module_t module __unused, int event, void *arg __unused)
{
	switch (event) {
	case MOD_LOAD:
		return (other_start(1));
		return (0);
	case MOD_UNLOAD:
		other_stop();
		return (0);
	default:
		return (EOPNOTSUPP);
	}
}

static moduledata_t data = { "c_depends", on_event, NULL };

DECLARE_MODULE(c_depends, data, SI_SUB_DRIVERS, SI_ORDER_MIDDLE);
MODULE_VERSION(c_depends, 1);
MODULE_DEPEND(c_depends, other, 1, 1, 1);

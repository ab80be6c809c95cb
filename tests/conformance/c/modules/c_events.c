/* Handlers of events, and a kernel environment. */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/eventhandler.h>
#include <sys/reboot.h>

static eventhandler_tag tags[2];

static void
on_shutdown(void *arg __unused, int how)
{
	char *value = kern_getenv("c_events");

	if (value != NULL) {
		printf("%s %d\n", value, how);
		freeenv(value);
	}
}

static int
on_event(module_t module __unused, int event, void *arg __unused)
{
	switch (event) {
	case MOD_LOAD:
		tags[0] = EVENTHANDLER_REGISTER(shutdown_pre_sync, on_shutdown, NULL, EVENTHANDLER_PRI_FIRST);
		tags[1] = EVENTHANDLER_REGISTER(shutdown_final, on_shutdown, NULL, EVENTHANDLER_PRI_LAST);
		return (0);
	case MOD_UNLOAD:
		EVENTHANDLER_DEREGISTER(shutdown_pre_sync, tags[0]);
		EVENTHANDLER_DEREGISTER(shutdown_final, tags[1]);
		return (0);
	default:
		return (EOPNOTSUPP);
	}
}

static moduledata_t data = { "c_events", on_event, NULL };

DECLARE_MODULE(c_events, data, SI_SUB_DRIVERS, SI_ORDER_MIDDLE);
MODULE_VERSION(c_events, 1);

/* A tree of sysctls, with handlers. */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/sysctl.h>

static int level = 3;
static char text[32] = "text";
static struct sysctl_ctx_list context;

static int
on_fire(SYSCTL_HANDLER_ARGS)
{
	int value = 0;
	int error = sysctl_handle_int(oidp, &value, 0, req);

	return (error);
}

SYSCTL_NODE(_debug, OID_AUTO, c_sysctl, CTLFLAG_RW, 0, "one");
SYSCTL_INT(_debug_c_sysctl, OID_AUTO, level, CTLFLAG_RW, &level, 0, "level");
SYSCTL_STRING(_debug_c_sysctl, OID_AUTO, text, CTLFLAG_RW, text, sizeof(text), "text");
SYSCTL_PROC(_debug_c_sysctl, OID_AUTO, fire, CTLTYPE_INT | CTLFLAG_RW | CTLFLAG_MPSAFE, NULL, 0, on_fire, "I", "fire");

static int
on_event(module_t module __unused, int event, void *arg __unused)
{
	switch (event) {
	case MOD_LOAD:
		sysctl_ctx_init(&context);
		SYSCTL_ADD_INT(&context, SYSCTL_STATIC_CHILDREN(_debug_c_sysctl), OID_AUTO, "more", CTLFLAG_RW, &level, 0, "more");
		return (0);
	case MOD_UNLOAD:
		sysctl_ctx_free(&context);
		return (0);
	default:
		return (EOPNOTSUPP);
	}
}

static moduledata_t data = { "c_sysctl", on_event, NULL };

DECLARE_MODULE(c_sysctl, data, SI_SUB_DRIVERS, SI_ORDER_MIDDLE);
MODULE_VERSION(c_sysctl, 1);

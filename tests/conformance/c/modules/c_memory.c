/* A zone, numbers and a string that grows. */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/malloc.h>
#include <sys/sbuf.h>
#include <vm/uma.h>

static uma_zone_t zone;
static struct unrhdr *numbers;

static int
on_event(module_t module __unused, int event, void *arg __unused)
{
	switch (event) {
	case MOD_LOAD:
		zone = uma_zcreate("c_memory", 48, NULL, NULL, NULL, NULL, UMA_ALIGN_PTR, 0);
		numbers = new_unrhdr(1, 99, NULL);
		uma_zfree(zone, uma_zalloc(zone, M_WAITOK));
		free_unr(numbers, alloc_unr(numbers));
		struct sbuf *text = sbuf_new_auto();
		sbuf_printf(text, "%d", 1);
		sbuf_finish(text);
		sbuf_delete(text);
		return (0);
	case MOD_UNLOAD:
		delete_unrhdr(numbers);
		uma_zdestroy(zone);
		return (0);
	default:
		return (EOPNOTSUPP);
	}
}

static moduledata_t data = { "c_memory", on_event, NULL };

DECLARE_MODULE(c_memory, data, SI_SUB_DRIVERS, SI_ORDER_MIDDLE);
MODULE_VERSION(c_memory, 1);

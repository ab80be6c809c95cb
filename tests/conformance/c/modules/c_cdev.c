/* A device, read and written by uiomove. */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/conf.h>
#include <sys/uio.h>
#include <sys/malloc.h>

MALLOC_DEFINE(M_CDEV, "c_cdev", "buffer");
static struct cdev *device;
static char *buffer;

static int
on_read(struct cdev *dev __unused, struct uio *uio, int flags __unused)
{
	return (uiomove(buffer, MIN(uio->uio_resid, 64), uio));
}

static int
on_ioctl(struct cdev *dev __unused, u_long command, caddr_t data __unused, int flags __unused, struct thread *td __unused)
{
	switch (command) {
	case 1: return (EINVAL);
	case 2: return (EPERM);
	case 3: return (ENXIO);
	case 4: tsleep(buffer, 0, "wait", hz); return (0);
	case 5: wakeup(buffer); return (0);
	case 6: pause("c_cdev", 1); return (0);
	default: return (ENOTTY);
	}
}

static struct cdevsw operations = { .d_version = D_VERSION, .d_name = "c_cdev", .d_read = on_read, .d_ioctl = on_ioctl };

static int
on_event(module_t module __unused, int event, void *arg __unused)
{
	switch (event) {
	case MOD_LOAD:
		buffer = malloc(64, M_CDEV, M_WAITOK | M_ZERO);
		device = make_dev(&operations, 0, UID_ROOT, GID_WHEEL, 0600, "c_cdev");
		return (0);
	case MOD_UNLOAD:
		destroy_dev(device);
		free(buffer, M_CDEV);
		return (0);
	default:
		return (EOPNOTSUPP);
	}
}

static moduledata_t data = { "c_cdev", on_event, NULL };

DECLARE_MODULE(c_cdev, data, SI_SUB_DRIVERS, SI_ORDER_MIDDLE);
MODULE_VERSION(c_cdev, 1);

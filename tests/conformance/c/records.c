/* What ../probes/src/records.rs declares, in C. */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/sdt.h>

SDT_PROVIDER_DEFINE(conformance);

SDT_PROBE_DEFINE0(conformance, , , none);
SDT_PROBE_DEFINE1(conformance, , , one__argument, "uint32_t");
SDT_PROBE_DEFINE2(conformance, , , two_, "int64_t", "char *");
SDT_PROBE_DEFINE3(conformance, , , three, "uint8_t", "_Bool", "size_t");
SDT_PROBE_DEFINE4(conformance, , , four, "uint64_t", "uint64_t", "int",
    "uint16_t");
SDT_PROBE_DEFINE5(conformance, , , five, "void *", "int8_t", "int16_t",
    "ssize_t", "uint64_t");
SDT_PROBE_DEFINE1_XLATE(conformance, , , translated, "struct proc *",
    "psinfo_t *");
SDT_PROBE_DEFINE2_XLATE(conformance, , , half__translated, "struct proc *",
    "psinfo_t *", "int", NULL);
#ifdef _SDT_TRACEPOINT_SET
SDT_PROVIDER_DEFINE(conformance_of_15);
SDT_PROBE_DEFINE6(conformance_of_15, , , six, "uint64_t", "uint64_t",
    "uint64_t", "uint64_t", "uint64_t", "char *");
#endif

void fire_none(void);
void fire_one(uint32_t);
void fire_two(int64_t, const char *);
void fire_three(uint8_t, bool, size_t);
void fire_four(uint64_t, uint64_t, int, uint16_t);
void fire_five(void *, int8_t, int16_t, ssize_t, uint64_t);
void fire_translated(struct proc *);
void fire_half_translated(struct proc *, int);
void fire_six(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, const char *);
void fire_twice(uint32_t, uint32_t);

void
fire_none(void)
{
	SDT_PROBE0(conformance, , , none);
}

void
fire_one(uint32_t a)
{
	SDT_PROBE1(conformance, , , one__argument, a);
}

void
fire_two(int64_t a, const char *b)
{
	SDT_PROBE2(conformance, , , two_, a, b);
}

void
fire_three(uint8_t a, bool b, size_t c)
{
	SDT_PROBE3(conformance, , , three, a, b, c);
}

void
fire_four(uint64_t a, uint64_t b, int c, uint16_t d)
{
	SDT_PROBE4(conformance, , , four, a, b, c, d);
}

void
fire_five(void *a, int8_t b, int16_t c, ssize_t d, uint64_t e)
{
	SDT_PROBE5(conformance, , , five, a, b, c, d, e);
}

void
fire_translated(struct proc *a)
{
	SDT_PROBE1(conformance, , , translated, a);
}

void
fire_half_translated(struct proc *a, int b)
{
	SDT_PROBE2(conformance, , , half__translated, a, b);
}

#ifdef _SDT_TRACEPOINT_SET
void
fire_six(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
    const char *f)
{
	SDT_PROBE6(conformance_of_15, , , six, a, b, c, d, e, f);
}
#endif

/* Two sites of one probe. */
void
fire_twice(uint32_t a, uint32_t b)
{
	SDT_PROBE1(conformance, , , one__argument, a);
	SDT_PROBE1(conformance, , , one__argument, b);
}

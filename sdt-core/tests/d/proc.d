/*
 * What C and Rust fire.
 */
provider shared {
	probe exec__success(char *path, int pid);
	probe exec_done(pid_t, unsigned long long bytes,
	    const struct packet_header *);
	probe start(struct packet_header *b) : (bufinfo_t *b);
	probe none();
	probe type(void);
};

provider other { probe hit(uintptr_t); };

#pragma D attributes Evolving/Evolving/ISA provider shared provider
#pragma D attributes Stable/Stable/Common provider shared args

/*
 * What C and Rust fire.
 */
struct packet_header;
typedef struct packet_header header_t;
typedef long long unsigned int big_t;

provider shared {
	probe exec__success(char *path, int pid);
	probe exec_done(pid_t, unsigned long long bytes,
	    const struct packet_header *);
	probe start(header_t *b) : (bufinfo_t *b);
	probe wide(big_t, long unsigned, unsigned char *);
	probe none();
	probe type(void);
};

provider other { probe hit(uintptr_t); };

#pragma D attributes Evolving/Evolving/ISA provider shared provider
#pragma D attributes Stable/Stable/Common provider shared args

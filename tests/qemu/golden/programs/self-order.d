/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
self uint64_t then;
proc:proc_example::exec-success /self->then/ { @["in order"] = min(timestamp >= self->then); }
proc:proc_example::exec-success { self->then = timestamp; }

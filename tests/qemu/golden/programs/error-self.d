/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success /self->then/ { trace(self->then); } proc:proc_example::exec-success { self->then = timestamp; }

/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { this->n = strlen(stringof(arg0)); printf("%d %d %d %x %s\n", this->n << 2, this->n & 3, ~this->n, this->n ^ 0xff, this->n > 8 ? "long" : "short"); }

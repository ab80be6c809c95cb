/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { this->zero = strlen(stringof(arg0)) - 8; trace(100 / this->zero); }

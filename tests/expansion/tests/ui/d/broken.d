provider broken {
    probe start(int pid)
    probe stop();
};

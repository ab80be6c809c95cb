provider latin {
    /* café */ probe start(int);
};

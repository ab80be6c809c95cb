//! A program with sites of every kind. With `--cfg firing`, they fire and a framework records the hits. With
//! `--cfg without_panics`, the panic handler calls an undefined function, so that the program links only if no panic can be
//! reached. Without it, the program does nothing.
#![cfg_attr(without_panics, no_std, no_main)]

#[cfg(all(without_panics, firing))]
mod firing;
#[cfg(without_panics)]
mod program;
#[cfg(all(without_panics, not(firing)))]
mod sites;

#[cfg(not(without_panics))]
fn main() {}

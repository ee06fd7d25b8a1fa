//! The engine against the API's definition: `table` reads elements as the kernel does, `world` makes
//! clusters at random, `storm` compares, `cases` are the promises one by one, `effort` what they may cost.

mod cases;
mod effort;
mod storm;
mod table;
mod world;

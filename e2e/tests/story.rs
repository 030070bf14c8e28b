//! Tier A: the product's story end to end on real clusters, under the shipped rights. Needs root; fails without it.

mod common;

use heapfleet_e2e::demo;
use heapfleet_e2e::lab::Config;

/// Promotion with the operator killed on the way, an exact rollback, a library that does not load, and outages: one test,
/// since they share one fleet and two cores.
#[test]
fn the_whole_story_on_a_real_fleet() {
    let _turn = common::turn();
    let root = common::fresh_root("story");
    let told = demo::run(Config {
        root,
        ..Config::default()
    })
    .expect("the story ends as told");
    assert_eq!(told.stories.len(), 3, "{}", told.table());
}

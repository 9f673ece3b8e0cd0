//! A red-black tree through nodes that live in a slice, linked by index: nothing is allocated, and a node can be
//! taken out without a search (T. H. Cormen et al., *Introduction to Algorithms*, ch. 13).

use core::marker::PhantomData;

use crate::slab::NIL;

/// A node's place in a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    parent: u32,
    left: u32,
    right: u32,
    red: bool,
}

impl Links {
    pub(crate) const NONE: Self = Self { parent: NIL, left: NIL, right: NIL, red: false };
}

impl Default for Links {
    fn default() -> Self {
        Self::NONE
    }
}

/// Something that can stand in one tree of kind `T` at a time.
pub(crate) trait Node<T> {
    fn links(&self) -> &Links;
    fn links_mut(&mut self) -> &mut Links;
}

/// The tree. `T` tells the trees apart in which one node may stand.
#[derive(Debug)]
pub(crate) struct Tree<T> {
    root: u32,
    kind: PhantomData<T>,
}

impl<T> Clone for Tree<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Tree<T> {}

/// A child's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

impl Links {
    const fn child(&self, side: Side) -> u32 {
        match side {
            Side::Left => self.left,
            Side::Right => self.right,
        }
    }

    const fn set_child(&mut self, side: Side, to: u32) {
        match side {
            Side::Left => self.left = to,
            Side::Right => self.right = to,
        }
    }
}

#[inline]
fn get<T, N: Node<T>>(nodes: &[N], at: u32) -> &Links {
    nodes[at as usize].links()
}

#[inline]
fn get_mut<T, N: Node<T>>(nodes: &mut [N], at: u32) -> &mut Links {
    nodes[at as usize].links_mut()
}

impl<T> Tree<T> {
    pub(crate) const EMPTY: Self = Self { root: NIL, kind: PhantomData };

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.root == NIL
    }

    /// The root, if there is a node.
    #[inline]
    pub(crate) const fn root(&self) -> Option<u32> {
        if self.root == NIL { None } else { Some(self.root) }
    }

    /// A node's child, if there is one: for searches.
    #[inline]
    pub(crate) fn child<N: Node<T>>(nodes: &[N], at: u32, side: Side) -> Option<u32> {
        let child = get::<T, N>(nodes, at).child(side);
        (child != NIL).then_some(child)
    }

    /// The leftmost node.
    pub(crate) fn first<N: Node<T>>(&self, nodes: &[N]) -> Option<u32> {
        Some(leftmost::<T, N>(nodes, self.root()?))
    }

    /// The node to the right of another in the tree's order.
    pub(crate) fn next<N: Node<T>>(nodes: &[N], at: u32) -> Option<u32> {
        let links = get::<T, N>(nodes, at);
        if links.right != NIL {
            return Some(leftmost::<T, N>(nodes, links.right));
        }
        let (mut at, mut parent) = (at, links.parent);
        while parent != NIL && get::<T, N>(nodes, parent).right == at {
            (at, parent) = (parent, get::<T, N>(nodes, parent).parent);
        }
        (parent != NIL).then_some(parent)
    }

    /// Puts a node, which is in no tree of this kind, where `side` says, asked for each node on the way down.
    pub(crate) fn insert<N: Node<T>>(&mut self, nodes: &mut [N], at: u32, mut side: impl FnMut(&N) -> Side) {
        let (mut parent, mut last) = (NIL, Side::Left);
        let mut below = self.root;
        while below != NIL {
            parent = below;
            last = side(&nodes[below as usize]);
            below = get::<T, N>(nodes, below).child(last);
        }
        *get_mut::<T, N>(nodes, at) = Links { parent, left: NIL, right: NIL, red: true };
        match parent {
            NIL => self.root = at,
            _ => get_mut::<T, N>(nodes, parent).set_child(last, at),
        }
        self.rebalance_inserted(nodes, at);
    }

    fn rebalance_inserted<N: Node<T>>(&mut self, nodes: &mut [N], mut at: u32) {
        loop {
            let parent = get::<T, N>(nodes, at).parent;
            if parent == NIL || !get::<T, N>(nodes, parent).red {
                break;
            }
            // A red node is never the root.
            let grandparent = get::<T, N>(nodes, parent).parent;
            let side = side_of::<T, N>(nodes, grandparent, parent);
            let uncle = get::<T, N>(nodes, grandparent).child(side.other());
            if is_red::<T, N>(nodes, uncle) {
                get_mut::<T, N>(nodes, parent).red = false;
                get_mut::<T, N>(nodes, uncle).red = false;
                get_mut::<T, N>(nodes, grandparent).red = true;
                at = grandparent;
                continue;
            }
            let mut top = parent;
            if side_of::<T, N>(nodes, parent, at) != side {
                self.rotate(nodes, parent, side);
                top = at;
            }
            get_mut::<T, N>(nodes, top).red = false;
            get_mut::<T, N>(nodes, grandparent).red = true;
            self.rotate(nodes, grandparent, side.other());
            break;
        }
        let root = self.root;
        get_mut::<T, N>(nodes, root).red = false;
    }

    /// Takes a node out.
    pub(crate) fn remove<N: Node<T>>(&mut self, nodes: &mut [N], at: u32) {
        let gone = *get::<T, N>(nodes, at);
        // The place where a black node may be missing: its node (or none) and its parent.
        let (below, parent, lost_black);
        if gone.left == NIL || gone.right == NIL {
            below = if gone.left == NIL { gone.right } else { gone.left };
            parent = gone.parent;
            lost_black = !gone.red;
            self.replace(nodes, gone.parent, at, below);
        } else {
            let heir = leftmost::<T, N>(nodes, gone.right);
            let heir_links = *get::<T, N>(nodes, heir);
            below = heir_links.right;
            lost_black = !heir_links.red;
            if heir == gone.right {
                parent = heir;
            } else {
                parent = heir_links.parent;
                self.replace(nodes, parent, heir, below);
                get_mut::<T, N>(nodes, heir).right = gone.right;
                get_mut::<T, N>(nodes, gone.right).parent = heir;
            }
            self.replace(nodes, gone.parent, at, heir);
            let links = get_mut::<T, N>(nodes, heir);
            links.left = gone.left;
            links.red = gone.red;
            get_mut::<T, N>(nodes, gone.left).parent = heir;
        }
        if lost_black {
            self.rebalance_removed(nodes, below, parent);
        }
    }

    fn rebalance_removed<N: Node<T>>(&mut self, nodes: &mut [N], mut at: u32, mut parent: u32) {
        while parent != NIL && !is_red::<T, N>(nodes, at) {
            let side = if get::<T, N>(nodes, parent).left == at { Side::Left } else { Side::Right };
            let mut sibling = get::<T, N>(nodes, parent).child(side.other());
            if is_red::<T, N>(nodes, sibling) {
                get_mut::<T, N>(nodes, sibling).red = false;
                get_mut::<T, N>(nodes, parent).red = true;
                self.rotate(nodes, parent, side);
                sibling = get::<T, N>(nodes, parent).child(side.other());
            }
            let links = *get::<T, N>(nodes, sibling);
            let (near, far) = (links.child(side), links.child(side.other()));
            if !is_red::<T, N>(nodes, near) && !is_red::<T, N>(nodes, far) {
                get_mut::<T, N>(nodes, sibling).red = true;
                at = parent;
                parent = get::<T, N>(nodes, at).parent;
                continue;
            }
            if !is_red::<T, N>(nodes, far) {
                get_mut::<T, N>(nodes, near).red = false;
                get_mut::<T, N>(nodes, sibling).red = true;
                self.rotate(nodes, sibling, side.other());
                sibling = near;
            }
            let far = get::<T, N>(nodes, sibling).child(side.other());
            get_mut::<T, N>(nodes, sibling).red = get::<T, N>(nodes, parent).red;
            get_mut::<T, N>(nodes, parent).red = false;
            get_mut::<T, N>(nodes, far).red = false;
            self.rotate(nodes, parent, side);
            return;
        }
        if at != NIL {
            get_mut::<T, N>(nodes, at).red = false;
        }
    }

    /// Turns a node down to `side`; its child on the other side takes its place.
    fn rotate<N: Node<T>>(&mut self, nodes: &mut [N], at: u32, side: Side) {
        let parent = get::<T, N>(nodes, at).parent;
        let up = get::<T, N>(nodes, at).child(side.other());
        let inner = get::<T, N>(nodes, up).child(side);
        get_mut::<T, N>(nodes, at).set_child(side.other(), inner);
        if inner != NIL {
            get_mut::<T, N>(nodes, inner).parent = at;
        }
        self.replace(nodes, parent, at, up);
        get_mut::<T, N>(nodes, up).set_child(side, at);
        get_mut::<T, N>(nodes, at).parent = up;
    }

    /// Makes `new` (or nothing) the child of `parent` in the place of `old`.
    fn replace<N: Node<T>>(&mut self, nodes: &mut [N], parent: u32, old: u32, new: u32) {
        if parent == NIL {
            self.root = new;
        } else {
            let links = get_mut::<T, N>(nodes, parent);
            if links.left == old {
                links.left = new;
            } else {
                links.right = new;
            }
        }
        if new != NIL {
            get_mut::<T, N>(nodes, new).parent = parent;
        }
    }
}

fn leftmost<T, N: Node<T>>(nodes: &[N], mut at: u32) -> u32 {
    loop {
        match get::<T, N>(nodes, at).left {
            NIL => return at,
            left => at = left,
        }
    }
}

fn is_red<T, N: Node<T>>(nodes: &[N], at: u32) -> bool {
    at != NIL && get::<T, N>(nodes, at).red
}

fn side_of<T, N: Node<T>>(nodes: &[N], parent: u32, child: u32) -> Side {
    if get::<T, N>(nodes, parent).left == child { Side::Left } else { Side::Right }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::SplitMix64;

    struct Kind;

    #[derive(Clone, Copy)]
    struct Item {
        key: u64,
        links: Links,
    }

    impl Node<Kind> for Item {
        fn links(&self) -> &Links {
            &self.links
        }
        fn links_mut(&mut self) -> &mut Links {
            &mut self.links
        }
    }

    /// Checks the colours below a node; its black height.
    fn black_height(items: &[Item], at: u32) -> u32 {
        if at == NIL {
            return 1;
        }
        let links = items[at as usize].links;
        for child in [links.left, links.right].into_iter().filter(|&child| child != NIL) {
            assert_eq!(items[child as usize].links.parent, at);
            assert!(!(links.red && items[child as usize].links.red), "two reds in a row");
        }
        let left = black_height(items, links.left);
        assert_eq!(left, black_height(items, links.right));
        left + u32::from(!links.red)
    }

    fn in_order(tree: &Tree<Kind>, items: &[Item]) -> Vec<u32> {
        core::iter::successors(tree.first(items), |&at| Tree::<Kind>::next(items, at)).collect()
    }

    #[test]
    fn stays_sorted_and_balanced() {
        let mut random = SplitMix64(1);
        let mut items = [Item { key: 0, links: Links::NONE }; 200];
        let mut tree = Tree::<Kind>::EMPTY;
        // The nodes in the tree, sorted; equal keys in the order of their insertion.
        let mut expected: Vec<u32> = Vec::new();
        for _ in 0..20_000 {
            let at = (random.next_u64() % 200) as u32;
            if let Some(place) = expected.iter().position(|&there| there == at) {
                expected.remove(place);
                tree.remove(&mut items, at);
            } else {
                let key = random.next_u64() % 50;
                items[at as usize].key = key;
                let place = expected.partition_point(|&there| items[there as usize].key <= key);
                expected.insert(place, at);
                tree.insert(&mut items, at, |there: &Item| if key < there.key { Side::Left } else { Side::Right });
            }
            assert_eq!(in_order(&tree, &items), expected);
            black_height(&items, tree.root);
            assert!(tree.root().is_none_or(|root| !items[root as usize].links.red));
        }
    }
}

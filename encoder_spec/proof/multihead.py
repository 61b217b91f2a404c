"""Proofs of chapter 5: splitting, concatenating and projecting heads.

Widths are symbols, so that two neighbouring blocks are enough: let the first stand for
heads 0 … i − 1 together and the second for head i. Induction on i gives every number of heads.
"""

from sympy import (
    BlockMatrix,
    Expr,
    Function,
    MatrixSymbol,
    Mod,
    OneMatrix,
    Symbol,
    block_collapse,
    floor,
    simplify,
    symbols,
)

from encoder_spec.cost import customary, parameters, symbol
from encoder_spec.profiles import TORCH_POST_LN, VASWANI_2017
from encoder_spec.proof import proves

n, d, h, d_k, d_v = (symbol(letter) for letter in ("n", "d_model", "h", "d_k", "d_v"))
i = Symbol("i", integer=True, positive=True)


@proves("MH-1")
def splitting_one_projection_equals_separate_projections() -> None:
    """X [W' | W_i] = [X W' | X W_i]: block columns of W meet only their own columns of Q.

    W' holds the i·d_k columns of the heads before head i. So head i starts at column i·d_k,
    ends where head i + 1 starts, and its columns of Q are X W_i; the last head ends with the
    last of the h·d_k columns.
    """
    X = MatrixSymbol("X", n, d)
    before, own = MatrixSymbol("W'", d, i * d_k), MatrixSymbol("W_i", d, d_k)
    together = block_collapse(X * BlockMatrix([[before, own]]))
    assert together == BlockMatrix([[X * before, X * own]])
    first, last = together.blocks[0, 0].cols, together.cols - 1
    assert first == i * d_k
    assert simplify(last - ((i + 1) * d_k - 1)) == 0
    assert simplify(last.subs(i, h - 1) - (h * d_k - 1)) == 0


@proves("MH-3")
def concatenation_undoes_the_split() -> None:
    """Column c of the concatenation is column c mod d_v of head ⌊c/d_v⌋; of the split, head i's column r is i·d_v + r.

    Composed, column c comes from column d_v·⌊c/d_v⌋ + (c mod d_v), which is c.
    """
    Y = Function("Y")
    j, c = symbols("j c", integer=True, nonnegative=True)

    def split(head: Expr, position: Expr, column: Expr) -> Expr:
        return Y(position, head * d_v + column)

    concatenated = split(floor(c / d_v), j, Mod(c, d_v))
    assert simplify(concatenated.rewrite(floor)) == Y(j, c)


def projected() -> Expr:
    """Concat(heads) W_O, with the heads before head i in one block C' and their rows of W_O in W'."""
    C = BlockMatrix([[MatrixSymbol("C'", n, i * d_v), MatrixSymbol("head_i", n, d_v)]])
    W_O = BlockMatrix([[MatrixSymbol("W'", i * d_v, d)], [MatrixSymbol("W_i", d_v, d)]])
    return block_collapse(C * W_O)


def sum_over_heads() -> Expr:
    """C' W' + head_i W_i, to which the same step applies again until C' is one head."""
    before = MatrixSymbol("C'", n, i * d_v) * MatrixSymbol("W'", i * d_v, d)
    return before + MatrixSymbol("head_i", n, d_v) * MatrixSymbol("W_i", d_v, d)


@proves("MH-4")
def output_projection_is_a_sum_over_heads_plus_its_bias() -> None:
    """The product is the sum over heads (MH-5); the bias is added to both sides, one row b for every position."""
    bias = OneMatrix(n, 1) * MatrixSymbol("b", 1, d)
    assert projected() + bias == sum_over_heads() + bias


@proves("MH-5")
def output_projection_is_a_sum_over_heads() -> None:
    """[C' | head_i] [W'; W_i] = C' W' + head_i W_i, by the block product; then the same for C' W'."""
    assert projected() == sum_over_heads()


@proves("MH-8")
def parameters_of_multi_head_attention() -> None:
    """W_Q and W_K have d_model × h·d_k entries, W_V and the transpose of W_O d_model × h·d_v.

    With h·d_k = h·d_v = d_model that is 4·d_model²; the biases b_Q, b_K, b_V and b_O add 4·d_model.
    """
    without = customary(parameters(VASWANI_2017)["attention"])
    with_biases = customary(parameters(TORCH_POST_LN)["attention"])
    assert simplify(without - 4 * d**2) == 0
    assert simplify(with_biases - without - 4 * d) == 0


@proves("MH-11")
def shared_keys_and_values_leave_out_their_share_of_the_maps() -> None:
    """W_Q and W_O have d h d_k and h d_v d entries, W_K and W_V d g d_k and d g d_v: 2 d² + 2 d² g/h in all."""
    g = symbol("g")
    attention = customary(parameters(VASWANI_2017.replace(multihead="grouped-query"))["attention"])
    assert simplify(attention - 2 * (1 + g / h) * d**2) == 0

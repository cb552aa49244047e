"""Caveats: sentences that a reader should know before relying on the numbers of a run."""

from dataclasses import dataclass, field

from . import format as fmt

WORDS = {
    "note": "{text}",
    "published": "Timed by the Transformers guide's recipe, eager first: a drift of the machine moves the speed-up "
    "beyond its interval, and there is no noise floor.",
    "separate": "Eager and compiled do not fit in memory together, so they were timed one after the other. "
    "A drift of the machine moves the speed-up beyond its interval, and there is no noise floor.",
    "compiles_itself": "The model calls torch.compile for a part of itself, in eager, too: the speed-up leaves it out.",
    "missing_weights": "Weights that the checkpoint lacks were initialised at random: {count} (first: {first}). "
    "Latency stands; predictions may mean nothing.",
    "segmentation": "{checkpoint} does not say whether it segments instances: its masks are shown as semantic ones.",
    "often_taken": "Fewer cores were free than torch used threads while it was timed. Stop other programs, or choose "
    "fewer threads.",
    "thread_taken": "Other programs often took the only thread's core while it was timed. Stop them.",
    "random_weights": "Random weights: latency stands, but predictions would mean nothing and are not shown.",
    "busy_cores": "Cores that others keep busy: {busy} of {cores}. Threads used for the timing: {threads}.",
    "timed_again": "Another program took a core. The run compiled again, for fewer threads, and used them: {threads}.",
    "no_graph": "torch.compile captured no graph at all: “compiled” ran as eager.",
    "breaks": "Graph breaks, at which Python runs: {breaks}. Graphs: {graphs}.",
    "cudagraphs": "CUDA graphs, which mode {mode} asks for, were {used}.",
    "fallbacks": "Functions that dynamo left to eager: {count}. The first: {place}, {reason}.",
    "tail": "Slow compiled calls are slower: of 20 calls one takes longer than {slow}, with eager longer than {usual}.",
    "unsettled": "Not settled when the warm-up ended ({variants}): the last three calls were more than 10 % apart, "
    "or one of them compiled.",
    "others": "Other programs kept {busy} of the processor busy while it was timed.",
    "wide": "The calls vary widely (middle half over median: {calls}): the speed of the machine or of the model was "
    "not steady.",
    "gpu_others": "Other processes that used this GPU as well: {count}.",
    "small_gpu": "This GPU has too few multiprocessors ({count}) for {mode} to try kernels for matrix products: they "
    "stay as in mode default.",
    "host_taken": "Eager waits for its host, which launches the kernels for {launching} of a call, and for {taken} of "
    "the time other programs or machines kept the host from it: eager is slower for that.",
    "gpu_clock": "The GPU's clock was between {low} and {high} while it was timed, and can be {most}.",
    "gpu_slowed": "The GPU's driver lowered its clock ({reasons}).",
    "not_compared": "Whether compiled computes the same as eager is not known. {reason}",
    "growth": "Calls became slower one by one ({rises} from the first third to the last): the model keeps something "
    "from call to call, or the machine slowed down.",
    "subnormal": "Subnormal numbers, slow on many CPUs: {shares}. torch.set_flush_denormal(True), called first, takes "
    "them for zero.",
    "narrow_vectors": "Inductor's test of the processor's instructions failed, and it compiled for {compiled}, while "
    "torch's own kernels use {own}: compiled is slower than it could be.",
    "bos_twice": "The prompt begins with {mark} twice. The tokenizer may add one itself: leave yours out.",
    "eos_at_end": "The prompt ends with {mark}, the end of a text or a turn: the answer begins another.",
    "dark_16_bits": "The picture has 16 bits a channel, and its largest value, {white} of 65535, was taken for white.",
    "cache_healed": "Damaged files of the compile cache were removed ({count}). What was needed compiled again.",
    "cache_replaced": "Damaged files of the compile cache cannot be removed ({reason}): this run compiled into an "
    "empty one. Delete the folder of TORCHINDUCTOR_CACHE_DIR, or torchinductor_ with your user's name among the "
    "temporary files.",
    "same_tensor": "The same tensor comes back from each call of {variant}: nothing may have been computed.",
    "copied_answer": "Each call of eager returns copies of what was there before it: nothing was computed.",
    "constant": "Each call of eager returns constants, which depend on no number of its inputs: nothing was computed.",
    "unread": "No output depends on the numbers of the inputs. A compiler may leave out what is computed from them.",
    "lazy": "The output of {variant} is a {kind}, which computes its numbers only when they are read: the times leave "
    "this out.",
    "draws": "The model draws random numbers. Compiled draws its own, so outputs that agree may do so by chance.",
    "drew": "The model draws random numbers. Its outputs stayed the same with other seeds ({seeds}), but may depend on "
    "them in other calls.",
    "given_back": "Each call changes the model's {changed}: every call gets back what the first one got, in a copy "
    "that the latencies leave out.",
    "not_watched": "Whether the model draws random numbers or changes its input is not known: {reason}.",
    "grows": "Memory grows by {size} with each call, as if the model kept its tensors: the peak holds those of "
    "all calls.",
    "unused_weights": "Weights of the checkpoint that this model does not take: {count} (first: {first}). Latency "
    "stands; predictions may not be the checkpoint's.",
    "quantized": "The checkpoint is quantised ({method}) and random weights are not: its latency is another, and "
    "predictions would mean nothing.",
    "unknown_quantization": "The checkpoint is quantised ({method}), which this transformers does not know: it "
    "took the weights as they are. Predictions may not be the checkpoint's.",
    "stored_dtype": "The checkpoint's weights are stored in {stored}, and this run computes in {dtype}.",
    "given_dtype": "The model or its inputs were given in {given}, and this run computes in {dtype}: in {given} its "
    "latency is another.",
    "other_processor": "The checkpoint's image processor is a {named}, which this transformers does not have. A {used} "
    "prepared the picture: predictions may not be the checkpoint's.",
    "default_processor": "The checkpoint's preprocessor_config.json does not say how a picture is prepared. A {used} "
    "did it by its default values: predictions may not be the checkpoint's.",
    "own_code": "The checkpoint brings Python code of its own, which is never run here: transformers' own {used} takes "
    "its place.",
    "slow_format": "This processor has no fast {dtype}: in float32 a matrix product is {times} times faster here.",
    "white_sheet": "The picture is transparent, and on white nothing of it can be seen: the model saw a white sheet.",
    "paused": "This process was stopped for {seconds} while it was timed, as by a machine that sleeps. The calls "
    "around it are left out, and the timing got its time back.",
    "not_counted": "Earlier processes with other threads, versions or outputs, not counted here: {count}.",
}
"""Texts of caveats by their keys, of one or more sentences. A {name} in a text stands for a value."""
IMPORTANT = (
    "no_graph", "same_tensor", "copied_answer", "constant", "lazy", "not_compared", "unread", "separate", "growth",
    "subnormal", "draws",
    "missing_weights", "unused_weights", "own_code", "other_processor", "default_processor", "quantized",
    "unknown_quantization", "given_dtype", "white_sheet", "slow_format",
    "given_back", "grows",
    "compiles_itself", "note", "narrow_vectors", "cudagraphs", "fallbacks", "breaks", "bos_twice", "eos_at_end",
    "not_counted", "drew"
)  # fmt: skip
"""Keys of the caveats that change what a speed-up means, most important first."""
NOTHING_DONE = ("no_graph", "same_tensor", "copied_answer", "constant", "lazy")
"""Keys of caveats that take away a run's speed-up: nothing was compiled, or the timed calls computed nothing."""


@dataclass(frozen=True)
class Caveat:
    """One warning about a result. `str(caveat)` is its text. Raises ValueError for an unknown key or missing values."""

    key: str
    """A key of `WORDS`. With the key "note", `values["text"]` is the whole text."""
    values: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            str(self)
        except (KeyError, IndexError, AttributeError) as error:
            raise ValueError(f"no caveat {self.key!r} with {sorted(self.values)}") from error

    def __str__(self) -> str:
        return WORDS[self.key].format_map(self.values)

    def redact(self) -> "Caveat":
        """Returns the caveat without folders, secrets and control characters in the texts of `values`."""
        return Caveat(self.key, {n: fmt.redact(v) if isinstance(v, str) else v for n, v in self.values.items()})


def note(text: str) -> Caveat:
    return Caveat("note", {"text": text})

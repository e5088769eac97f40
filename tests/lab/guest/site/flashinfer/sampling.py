import functools

from .jit.core import gen_jit_spec


@functools.cache
def get_sampling_module():
    return gen_jit_spec("sampling", ["sampling.cu"]).build_and_load()


def top_k_top_p_sampling_from_probs(probs, top_k, top_p):
    get_sampling_module()
    return max(range(len(probs)), key=probs.__getitem__)

"""Modules that libraries import but that cannot work here: using them raises an error.

`TABLE` names each with what it is for and the names people import from it. A module of Adjoint's
of the same name comes first: this is asked only when there is none.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from adjoint.engine.core.state import config

_COMPILER = "such part of PyTorch's own compiler; compile is Adjoint's"
_QUANTIZED_GRAPHS = "quantization of traced graphs; prepare and convert take modules"

# Path within the package: what it is for; the names it has.
TABLE: dict[str, tuple[str, str]] = {
    "_C._distributed_rpc": ("remote calls", "_is_current_rpc_agent_set"),
    "_subclasses.fake_tensor": ("end of a mode inside its block", "unset_fake_temporarily"),
    "ao.quantization.quantize_fx": (
        _QUANTIZED_GRAPHS,
        (
            "prepare_fx prepare_qat_fx convert_fx fuse_fx convert_to_reference_fx "
            "_convert_to_reference_decomposed_fx"
        ),
    ),
    "_C": (
        "such internals",
        (
            "_DisableTorchDispatch ScriptObject _dispatch_dump "
            "_dispatch_has_kernel_for_dispatch_key _cuda_getCurrentStream"
        ),
    ),
    "_export": ("such internals; see export", ""),
    "_export.config": ("such internals; see export", ""),
    "_export.error": ("such internals; see export", "InternalError"),
    "_export.utils": (
        "such internals; see export",
        "_disable_aten_to_metadata_assertions _is_cia_op",
    ),
    "_higher_order_ops.inline_asm_elementwise": (
        "kernels from a line of assembler; adjoint.library takes CUDA C and Triton",
        "inline_asm_elementwise",
    ),
    "_inductor": (_COMPILER, "aoti_compile_and_package aoti_load_package"),
    "_inductor.codegen.cpp_flex_attention_template": (_COMPILER, "CppFlexAttentionTemplate"),
    "_inductor.codegen.cpp_template": (_COMPILER, "CppTemplate"),
    "_inductor.codegen.cpp_template_kernel": (
        _COMPILER,
        "parse_expr_with_index_symbols wrap_with_tensorbox",
    ),
    "_inductor.codegen.triton": (_COMPILER, "TritonOverrides"),
    "_inductor.constant_folding": (_COMPILER, "constant_fold"),
    "_inductor.custom_graph_pass": (_COMPILER, "CustomGraphPass get_hash_for_files"),
    "_inductor.freezing_utils": (_COMPILER, "maybe_set_is_frozen_param"),
    "_inductor.fx_passes.freezing_patterns": (
        _COMPILER,
        "freezing_passes register_freezing_graph_pattern",
    ),
    "_inductor.fx_passes.mkldnn_fusion": (
        _COMPILER,
        (
            "_gelu_fusion_1 _gelu_fusion_2 _get_remaining_users _hardswish_fusion "
            "_hardtanh_fusion _silu_fusion"
        ),
    ),
    "_inductor.ir": (
        _COMPILER,
        (
            "Buffer ChoiceCaller CppTemplateBuffer FixedLayout IRNode Layout Pointwise TensorBox "
            "get_fill_order"
        ),
    ),
    "_inductor.kernel.flex.common": (_COMPILER, "construct_strides maybe_realize"),
    "_inductor.kernel.flex_attention": (_COMPILER, "construct_strides maybe_realize"),
    "_inductor.lowering": (_COMPILER, "expand lowerings register_lowering to_dtype"),
    "_inductor.metrics": (_COMPILER, "reset"),
    "_inductor.pattern_matcher": (
        _COMPILER,
        (
            "Arg CallFunction KeywordArg Match PatternMatcherPass filter_nodes "
            "register_lowering_pattern"
        ),
    ),
    "_inductor.select_algorithm": (
        _COMPILER,
        "DataProcessorTemplateWrapper ExternKernelChoice autotune_select_algorithm",
    ),
    "_inductor.utils": (_COMPILER, "parallel_num_threads"),
    "_inductor.virtualized": (_COMPILER, "ops"),
    "_prims_common.wrappers": ("such internals", "_maybe_convert_to_dtype"),
    "ao.nn.intrinsic": ("such fused layers", "_FusedModule"),
    "ao.nn.quantized": (
        "quantised batch norms by themselves; fuse_modules puts them into convolutions",
        "BatchNorm2d BatchNorm3d",
    ),
    "ao.ns.fx.utils": ("comparison of traced graphs", "compute_sqnr"),
    "ao.pruning": (
        "quantised layers of sparse weights",
        "get_static_sparse_quantized_mapping get_dynamic_sparse_quantized_mapping",
    ),
    "ao.quantization": (
        "quantization of traced graphs; prepare and convert take modules",
        "QConfigMapping",
    ),
    "ao.quantization.backend_config": (
        _QUANTIZED_GRAPHS,
        "BackendConfig get_executorch_backend_config get_native_backend_config",
    ),
    "ao.quantization.backend_config.utils": (
        _QUANTIZED_GRAPHS,
        (
            "get_fused_module_classes get_pattern_to_dtype_configs get_qat_module_classes "
            "get_root_module_to_quantized_reference_module"
        ),
    ),
    "ao.quantization.fx._decomposed": (
        _QUANTIZED_GRAPHS,
        "_per_token_quant_qparam_dim_check quantize_per_channel_group quantized_decomposed_lib",
    ),
    "ao.quantization.fx._equalize": (
        _QUANTIZED_GRAPHS,
        "convert_eq_obs update_obs_for_equalization",
    ),
    "ao.quantization.fx.custom_config": (
        _QUANTIZED_GRAPHS,
        "ConvertCustomConfig PrepareCustomConfig",
    ),
    "ao.quantization.fx.graph_module": (
        _QUANTIZED_GRAPHS,
        "_is_observed_module _is_observed_standalone_module",
    ),
    "ao.quantization.fx.lower_to_fbgemm": (_QUANTIZED_GRAPHS, "lower_to_fbgemm"),
    "ao.quantization.fx.prepare": (_QUANTIZED_GRAPHS, "_insert_obs_or_fq _save_state"),
    "ao.quantization.fx.qconfig_mapping_utils": (
        _QUANTIZED_GRAPHS,
        (
            "_compare_prepare_convert_qconfig_mappings _generate_node_name_to_qconfig "
            "_is_qconfig_supported_by_dtype_configs _update_qconfig_for_fusion "
            "_update_qconfig_for_qat"
        ),
    ),
    "ao.quantization.fx.utils": (
        _QUANTIZED_GRAPHS,
        "_get_module graph_module_from_producer_nodes node_arg_is_weight",
    ),
    "ao.quantization.observer": (_QUANTIZED_GRAPHS, "AffineQuantizedObserverBase"),
    "ao.quantization.qconfig": (_QUANTIZED_GRAPHS, "QConfigAny qconfig_equals"),
    "ao.quantization.qconfig_mapping": (_QUANTIZED_GRAPHS, "QConfigMapping"),
    "ao.quantization.utils": (
        _QUANTIZED_GRAPHS,
        (
            "MatchAllNode _parent_name get_qparam_dict is_per_channel to_underlying_dtype "
            "weight_is_quantized"
        ),
    ),
    "distributed._symmetric_memory": (
        "memory shared by GPUs",
        "empty enable_symm_mem_for_group is_symm_mem_enabled_for_group rendezvous",
    ),
    "distributed.tensor._dispatch": (
        "tables of that kind; see adjoint.distributed.tensor.rules",
        "",
    ),
    "fx.experimental.const_fold": (
        "such folding; compile folds constants",
        "FoldedGraphModule split_const_subgraphs",
    ),
    "fx.experimental.normalize": (
        "such rewriting; see Node.normalized_arguments",
        "NormalizeArgs NormalizeOperators",
    ),
    "fx.passes.graph_drawer": ("drawings of graphs; see Graph.print_tabular", "FxGraphDrawer"),
    "fx.passes.split_utils": (
        "such splitting; see fx.passes.split_module",
        "Component getattr_recursive setattr_recursive split_by_tags",
    ),
    "jit.frontend": (
        "trees of TorchScript",
        "get_class_properties get_default_args get_jit_class_def get_jit_def",
    ),
    "jit.mobile": ("programs for phones; see export", "_load_for_lite_interpreter"),
    "utils.bundled_inputs": (
        "inputs kept in programs; see export",
        "augment_model_with_bundled_inputs bundle_inputs bundle_randn",
    ),
    "utils.mkldnn": ("layers of that library", "to_mkldnn"),
    "utils.mobile_optimizer": (
        "programs for phones; see export",
        "generate_mobile_module_lints optimize_for_mobile",
    ),
    "fx.experimental.symbolic_shapes": (
        "sizes of that kind; see export.Dim",
        (
            "ShapeEnv DimDynamic StatelessSymbolicContext StatefulSymbolicContext DimConstraints "
            "ConstraintViolationError"
        ),
    ),
    "fx.passes.utils.matcher_with_name_node_map_utils": (
        "such matching; see fx.subgraph_rewriter",
        "InternalMatch SubgraphMatcherWithNameNodeMap",
    ),
    "fx.passes.utils.source_matcher_utils": (
        "such matching; see fx.subgraph_rewriter",
        "SourcePartition check_subgraphs_connected get_source_partitions",
    ),
    "fx.subgraph_rewriter": (
        "such matching; see replace_pattern",
        "ReplacedPatterns replace_pattern_with_filters",
    ),
    "fx.traceback": ("accounts of where nodes came from", "NodeSource NodeSourceAction"),
    "nested._internal.nested_tensor": (
        "such internals; see nested",
        "nested_view_from_values_offsets",
    ),
    "nn.attention": (
        "choice of another's attention kernels",
        (
            "activate_flash_attention_impl restore_flash_attention_impl "
            "register_flash_attention_impl"
        ),
    ),
    "nn.attention.experimental": ("attention of that kind", ""),
    "nn.functional": ("products of scaled halves", "scaled_mm scaled_grouped_mm"),
    "package": (
        "packages of code and weights; save the state_dict, or export a program",
        (
            "PackageExporter PackageImporter Importer OrderedImporter Directory EmptyMatchError "
            "PackagingError is_from_package()"
        ),
    ),
    "profiler._utils": ("such internals", "_init_for_cuda_graphs"),
    "sparse": ("checks of that kind; see autograd.gradcheck", "as_sparse_gradcheck"),
    "sparse._triton_ops": (
        "such kernels; products of sparse matrices are @",
        (
            "broadcast_batch_dims launch_kernel prepare_inputs ptr_stride_extractor "
            "tile_to_blocksize bsr_dense_addmm bsr_dense_mm"
        ),
    ),
    "sparse._triton_ops_meta": (
        "such kernels; products of sparse matrices are @",
        "get_meta minimize update",
    ),
    "testing._internal.common_quantization": (
        "PyTorch's own tests; see testing",
        "NodeSpec QuantizationTestCase",
    ),
    "testing._internal.distributed._tensor.common_dtensor": (
        "PyTorch's own tests; see testing",
        "DTensorTestBase with_comms",
    ),
    "testing._internal.inductor_utils": (
        "PyTorch's own tests; see testing",
        "clone_preserve_strides_offset",
    ),
    "_functorch.aot_autograd": (
        "forward and backward apart for compilers; compile records whole steps",
        "aot_function aot_module aot_module_simplified aot_export_module aot_export_joint_simple",
    ),
    "_functorch.package.compile": (
        "forward and backward apart for compilers; compile records whole steps",
        (
            "aot_function aot_module memory_efficient_fusion min_cut_rematerialization_partition "
            "default_partition ts_compile"
        ),
    ),
    "backends.cuda": (
        "say over plans of Fourier transforms, or over workspaces of products",
        "cufft_plan_cache blas_workspace_size cublas_workspace_size cublaslt_workspace_size",
    ),
    "classes": ("classes of C++ libraries", ""),
    "compiler": (
        "say over what recordings depend on; programs are kept between runs by themselves",
        (
            "CacheInfo save_cache_artifacts load_cache_artifacts load_compiled_function wrap_numpy "
            "keep_portable_guards_unsafe keep_tensor_guards_unsafe skip_all_guards_unsafe "
            "skip_guard_on_all_nn_modules_unsafe skip_guard_on_globals_unsafe "
            "skip_guard_on_inbuilt_nn_modules_unsafe"
        ),
    ),
    "cuda": ("partitions of a GPU", "GreenContext"),
    "cuda.gds": (
        "reading of files by a GPU itself",
        "GdsFile gds_register_buffer gds_deregister_buffer",
    ),
    "cuda.green_contexts": ("partitions of a GPU", "GreenContext"),
    "cuda.jiterator": (
        "kernels from a line of C++; adjoint.library takes CUDA C and Triton",
        "_create_jit_fn _create_multi_output_jit_fn",
    ),
    "cuda.sparse": ("sparse tensor types of old; see adjoint.sparse", "FloatTensor DoubleTensor"),
    "cuda.tunable": (
        "tuning of products by hand; compile times its kernels by itself",
        "enable is_enabled() tuning_enable tuning_is_enabled() set_filename get_filename",
    ),
    "distributed": (
        "such group of processes",
        "BackendConfig ProcessGroupGloo ProcessGroupNCCL ProcessGroupMPI Reducer Logger",
    ),
    "distributed._functional_collectives": (
        "such collectives",
        "all_to_all_single all_to_all_single_autograd permute_tensor AsyncCollectiveTensor",
    ),
    "distributed._shard.sharded_tensor": (
        "tensors of that kind; DTensor spreads tensors over processes",
        "ShardedTensor Shard init_from_local_shards",
    ),
    "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook": (
        "averages of that kind",
        "PostLocalSGDState post_localSGD_hook",
    ),
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook": (
        "gradients compressed by their factors",
        "PowerSGDState powerSGD_hook batched_powerSGD_hook",
    ),
    "distributed.algorithms.model_averaging": ("averages of that kind", "averagers"),
    "distributed.algorithms.model_averaging.averagers": (
        "averages of that kind",
        "ModelAverager PeriodicModelAverager",
    ),
    "distributed.autograd": (
        "derivatives across remote calls",
        "context backward get_gradients DistAutogradContext is_available()",
    ),
    "distributed.argparse_util": ("such options; see adjoint launch", "check_env env"),
    "distributed.checkpoint": (
        "such checkpoints",
        (
            "LoadPlan LoadPlanner SavePlan SavePlanner ReadItem WriteItem Metadata StorageReader "
            "StorageWriter TensorStorageMetadata BytesStorageMetadata ChunkStorageMetadata "
            "CheckpointException HuggingFaceStorageReader HuggingFaceStorageWriter"
        ),
    ),
    "distributed.checkpoint.format_utils": (
        "files of PyTorch's sharded checkpoints",
        (
            "dcp_to_torch_save torch_save_to_dcp BroadcastingTorchSaveReader "
            "DynamicMetaLoadPlanner _EmptyStateDictLoadPlanner"
        ),
    ),
    "distributed.checkpoint.metadata": (
        "such checkpoints",
        "Metadata TensorStorageMetadata BytesStorageMetadata MetadataIndex StorageMeta",
    ),
    "distributed.checkpoint.optimizer": (
        "such checkpoints; checkpoint.state_dict has the optimizer's",
        "load_sharded_optimizer_state_dict",
    ),
    "distributed.checkpoint.planner": (
        "such checkpoints",
        "LoadPlan LoadPlanner SavePlan SavePlanner ReadItem WriteItem",
    ),
    "distributed.collective_utils": ("such collectives", "broadcast all_gather"),
    "distributed.distributed_c10d": (
        "groups of that kind; see new_group",
        "_new_process_group_helper",
    ),
    "distributed.elastic.agent.server.api": ("agents; see adjoint launch", "WorkerState"),
    "distributed.elastic.agent.server.local_elastic_agent": (
        "agents; see adjoint launch",
        "LocalElasticAgent",
    ),
    "distributed.elastic.events": (
        "such log",
        "Event EventSource NodeState RdzvEvent record get_logging_handler",
    ),
    "distributed.elastic.metrics": (
        "such log",
        "MetricHandler MetricsConfig NullMetricHandler configure prof profile put_metric",
    ),
    "distributed.elastic.timer": (
        "such deadlines",
        "LocalTimerClient LocalTimerServer TimerClient TimerRequest TimerServer configure expires",
    ),
    "distributed.fsdp._common_utils": (
        "such internals; see fsdp",
        "TrainingState _FSDPState _get_module_fsdp_state _is_fsdp_flattened clean_tensor_name",
    ),
    "distributed.fsdp._runtime_utils": (
        "such internals; see fsdp",
        "_lazy_init _reset_flat_param_grad_info_if_needed _unshard _reshard",
    ),
    "distributed.elastic.rendezvous": ("rendezvous of that kind; see adjoint launch", ""),
    "distributed.launcher.api": (
        "launcher by that name; see adjoint launch",
        "LaunchConfig elastic_launch launch_agent",
    ),
    "distributed.logging_handlers": ("such log", ""),
    "distributed.remote_device": ("remote calls", "_remote_device"),
    "distributed.tensor._dtensor_spec": ("such description", "DTensorSpec TensorMeta"),
    "distributed.tensor._ops": ("tables of that kind; see adjoint.distributed.tensor.rules", ""),
    "distributed.tensor.debug": ("counts of collectives", "CommDebugMode visualize_sharding"),
    "distributed.tensor.experimental": (
        "tensors spread over processes in that way",
        "implicit_replication local_map register_sharding context_parallel",
    ),
    "distributed.tensor.placement_types": ("parts of parts of a dimension", "_StridedShard"),
    "distributed.utils": (
        "such helpers",
        "_sync_module_states _verify_param_shape_across_processes _to_kwargs _alloc_storage",
    ),
    "distributed.checkpoint._consolidate_hf_safetensors": (
        "such checkpoints",
        "consolidate_safetensors_files",
    ),
    "distributed.checkpoint.hf_storage": (
        "such checkpoints",
        "HuggingFaceStorageReader HuggingFaceStorageWriter",
    ),
    "distributed._tensor.experimental": ("tensors spread over processes", "implicit_replication"),
    "distributed.fsdp.sharded_grad_scaler": (
        "parameters spread over processes",
        "ShardedGradScaler",
    ),
    "distributed.rpc": ("remote calls", ""),
    "distributed.rpc.api": ("remote calls", ""),
    "jit": ("graphs of TorchScript", "_get_trace_graph"),
    "nn.utils._per_sample_grad": (
        "gradients of samples by expanded weights; func.vmap of func.grad gives them",
        "call_for_per_sample_grads",
    ),
    "onnx": ("export to ONNX", "export is_in_onnx_export()"),
    "onnx.symbolic_helper": ("export to ONNX", "parse_args"),
    "utils.cpp_extension": (
        "C++ extensions of PyTorch's",
        (
            "load load_inline CppExtension CUDAExtension SyclExtension BuildExtension "
            "include_paths library_paths verify_ninja_availability get_default_build_root "
            "check_compiler_abi_compatibility"
        ),
    ),
    "vision.datasets": (
        "reader of that dataset",
        (
            "CLEVRClassification CREStereo Caltech101 Caltech256 CarlaStereo CelebA Cityscapes "
            "Country211 DTD EMNIST ETH3DStereo EuroSAT FER2013 FGVCAircraft FallingThingsStereo "
            "Flickr30k Flickr8k Flowers102 FlyingChairs FlyingThings3D Food101 GTSRB HD1K HMDB51 "
            "INaturalist ImageNet Imagenette InStereo2k Kinetics Kitti Kitti2012Stereo "
            "Kitti2015Stereo KittiFlow LFWPairs LFWPeople LSUN LSUNClass Middlebury2014Stereo "
            "MovingMNIST Omniglot OxfordIIITPet PCAM PhotoTour Places365 QMNIST RenderedSST2 "
            "SBDataset SBU SEMEION SUN397 SceneFlowStereo Sintel SintelStereo StanfordCars UCF101 "
            "USPS WIDERFace wrap_dataset_for_transforms_v2"
        ),
    ),
    "vision.io": (
        "decoder of that format",
        "decode_avif decode_heic",
    ),
    "vision.models.quantization": (
        "quantised networks by these names; see torch.ao.quantization",
        (
            "GoogLeNet_QuantizedWeights Inception_V3_QuantizedWeights "
            "MobileNet_V2_QuantizedWeights MobileNet_V3_Large_QuantizedWeights "
            "QuantizableGoogLeNet QuantizableInception3 QuantizableMobileNetV2 "
            "QuantizableMobileNetV3 QuantizableResNet QuantizableShuffleNetV2 "
            "ResNeXt101_32X8D_QuantizedWeights ResNeXt101_64X4D_QuantizedWeights "
            "ResNet18_QuantizedWeights ResNet50_QuantizedWeights "
            "ShuffleNet_V2_X0_5_QuantizedWeights ShuffleNet_V2_X1_0_QuantizedWeights "
            "ShuffleNet_V2_X1_5_QuantizedWeights ShuffleNet_V2_X2_0_QuantizedWeights googlenet "
            "inception_v3 mobilenet_v2 mobilenet_v3_large resnet18 resnet50 resnext101_32x8d "
            "resnext101_64x4d shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 "
            "shufflenet_v2_x2_0"
        ),
    ),
    "vision.transforms.v2": (
        "transforms of key points, and files made worse on purpose",
        "ClampKeyPoints JPEG SanitizeKeyPoints get_keypoints",
    ),
    "vision.transforms.v2.functional": (
        "kernels for key points, and files made worse on purpose",
        (
            "affine_keypoints center_crop_keypoints clamp_keypoints crop_keypoints "
            "elastic_keypoints get_size_keypoints horizontal_flip_keypoints jpeg jpeg_image "
            "jpeg_video pad_keypoints perspective_keypoints resize_keypoints "
            "resized_crop_keypoints rotate_keypoints sanitize_keypoints vertical_flip_keypoints"
        ),
    ),
    "vision.tv_tensors": ("key points; boxes and masks are there", "KeyPoints"),
    "vision.utils": (
        "such drawing",
        "draw_keypoints",
    ),
}


class _Refusing(type):
    """The class of placeholders: they may be named, tested against and inherited from."""

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(cls)

    def __instancecheck__(cls, instance: Any) -> bool:
        return False

    def __subclasscheck__(cls, subclass: type) -> bool:
        return cls in subclass.__mro__

    def __getattr__(cls, name: str) -> NoReturn:
        raise AttributeError(f"{_title(cls)}.{name}: Adjoint has no {_purpose(cls)}", name=name)


def refuse(cls: type) -> NoReturn:
    """Say that a placeholder was used."""
    raise NotImplementedError(f"{_title(cls)}: Adjoint has no {_purpose(cls)}")


def _path(cls: type) -> str:
    return cls.__module__.split(".", maxsplit=1)[1]


def _title(cls: type) -> str:
    title = f"{config.display_name}.{_path(cls)}.{cls.__name__}"
    return title.replace("torch.vision.", "torchvision.", 1)


def _purpose(cls: type) -> str:
    return TABLE[_path(cls)][0]


def never() -> bool:
    """No."""
    return False


def fill(target: ModuleType, wanted: str | None = None) -> None:
    """Give a module placeholders for the names of its entry that it does not have.

    With `wanted`, for that name alone, which is known not to be there.
    """
    name = target.__name__
    purpose, names = TABLE.get(name.removeprefix("adjoint."), ("", ""))
    for entry in names.split():
        missing = entry.removesuffix("()")
        if missing != wanted and (wanted is not None or hasattr(target, missing)):
            continue
        if entry.endswith("()"):  # a question, whose answer is no
            target.__dict__[missing] = never
        else:
            about = {"__module__": name, "__doc__": f"No {purpose}."}
            target.__dict__[missing] = _Refusing(missing, (), about)


def module(name: str) -> ModuleType | None:
    """The placeholder of a module, entered among the loaded ones; None if the table has none."""
    path = name.removeprefix("adjoint.")
    below = any(entry.startswith(path + ".") for entry in TABLE)
    if path not in TABLE and not below:
        return None
    purpose = TABLE.get(path, ("", ""))[0]
    placeholder = ModuleType(name, f"{purpose}: not in Adjoint; its names refuse when used.")
    placeholder.__spec__ = ModuleSpec(name, None, is_package=below)
    if below:
        placeholder.__path__ = []
    fill(placeholder)
    sys.modules[name] = placeholder
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, placeholder)
    return placeholder

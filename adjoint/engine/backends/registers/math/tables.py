"""Minimax polynomials, lowest power first. Made by tools/make_math_tables.py."""

# fmt: off
LN2_F32 = (
    float.fromhex("0x1.62e4000000000p-1"),
    float.fromhex("0x1.7f7d1c0000000p-20"),
)
LN2_F64 = (
    float.fromhex("0x1.62e42fefa4000p-1"),
    float.fromhex("-0x1.8432a1b0e2634p-43"),
)
LOG2_E_F32 = (
    float.fromhex("0x1.7154760000000p+0"),
    float.fromhex("0x1.4ae0c00000000p-26"),
)
LOG2_E_F64 = (
    float.fromhex("0x1.71547652b82fep+0"),
    float.fromhex("0x1.777d0ffda0d24p-56"),
)
LOG10_E_F32 = (
    float.fromhex("0x1.bcb7b20000000p-2"),
    float.fromhex("-0x1.5b235e0000000p-27"),
)
LOG10_E_F64 = (
    float.fromhex("0x1.bcb7b1526e50ep-2"),
    float.fromhex("0x1.95355baaafad3p-57"),
)
LOG10_2_F32 = (
    float.fromhex("0x1.3440000000000p-2"),
    float.fromhex("0x1.3509f80000000p-18"),
)
LOG10_2_F64 = (
    float.fromhex("0x1.34413509f8000p-2"),
    float.fromhex("-0x1.80433b83b532ap-44"),
)
HALF_PI_F32 = (
    float.fromhex("0x1.9200000000000p+0"),
    float.fromhex("0x1.fb40000000000p-12"),
    float.fromhex("0x1.4440000000000p-24"),
    float.fromhex("0x1.68c2340000000p-39"),
)
HALF_PI_F32_FUSED = (
    float.fromhex("0x1.921fb60000000p+0"),
    float.fromhex("-0x1.777a5c0000000p-25"),
    float.fromhex("-0x1.ee59da0000000p-50"),
)
HALF_PI_F64 = (
    float.fromhex("0x1.921fb54400000p+0"),
    float.fromhex("0x1.0b4611a600000p-34"),
    float.fromhex("0x1.3198a2e000000p-69"),
    float.fromhex("0x1.b839a252049c1p-104"),
)
PI_F32 = (
    float.fromhex("0x1.921fb60000000p+1"),
    float.fromhex("-0x1.777a5c0000000p-24"),
)
PI_F64 = (
    float.fromhex("0x1.921fb54442d18p+1"),
    float.fromhex("0x1.1a62633145c07p-53"),
)
ROOT_HALF = (
    float.fromhex("0x1.6a09e667f3bcdp-1"),
    float.fromhex("-0x1.bdd3413b26456p-55"),
)
TWO_THIRDS_F32 = (
    float.fromhex("0x1.5555560000000p-1"),
    float.fromhex("-0x1.5555560000000p-26"),
)
TWO_THIRDS_F64 = (
    float.fromhex("0x1.5555555555555p-1"),
    float.fromhex("0x1.5555555555555p-55"),
)
# 2/pi in pieces of 24 bits
TWO_OVER_PI = (
    10680707, 7228996, 1387004, 2578385, 16069853, 12639074, 9804092, 4427841,
    16666979, 11263675, 12935607, 2387514, 4345298, 14681673, 3074569, 13734428,
    16653803, 1880361, 10960616, 8533493, 3062596, 8710556, 7349940, 6258241,
    3772886, 3769171, 3798172, 8675211, 12450088, 3874808, 9961438, 366607,
    15675153, 9132554, 7151469, 3571407, 2607881, 12013382, 4155038, 6285869,
    7677882, 13102053, 15825725, 473591, 9065106, 15363067, 6271263, 9264392,
    5636912, 4652155, 7056368, 13614112,
)
# e**r = 1 + r + r**2 p(r); error 2**-28.2
EXP_F32 = (
    float.fromhex("0x1.fffffc0000000p-2"),
    float.fromhex("0x1.5554920000000p-3"),
    float.fromhex("0x1.5558be0000000p-5"),
    float.fromhex("0x1.1239ba0000000p-7"),
    float.fromhex("0x1.6a3f6e0000000p-10"),
)
# e**r = 1 + r + r**2 p(r); error 2**-57.8
EXP_F64 = (
    float.fromhex("0x1.000000000000ap-1"),
    float.fromhex("0x1.5555555555505p-3"),
    float.fromhex("0x1.5555555550659p-5"),
    float.fromhex("0x1.1111111125335p-7"),
    float.fromhex("0x1.6c16c18499a60p-10"),
    float.fromhex("0x1.a01a013766aaap-13"),
    float.fromhex("0x1.a01998e841d4fp-16"),
    float.fromhex("0x1.71df08e09b65ep-19"),
    float.fromhex("0x1.28ae7c3eb6f2cp-22"),
    float.fromhex("0x1.adac1fbc7b1fap-26"),
)
# e**r - 1 = r + r**2 p(r); error 2**-26.1
EXPM1_F32 = (
    float.fromhex("0x1.0000000000000p-1"),
    float.fromhex("0x1.5554b00000000p-3"),
    float.fromhex("0x1.5554dc0000000p-5"),
    float.fromhex("0x1.1227f00000000p-7"),
    float.fromhex("0x1.6d5b2a0000000p-10"),
)
# e**r - 1 = r + r**2 p(r); error 2**-61.7
EXPM1_F64 = (
    float.fromhex("0x1.0000000000000p-1"),
    float.fromhex("0x1.5555555555559p-3"),
    float.fromhex("0x1.5555555555557p-5"),
    float.fromhex("0x1.111111110f634p-7"),
    float.fromhex("0x1.6c16c16c156c1p-10"),
    float.fromhex("0x1.a01a01b0199d4p-13"),
    float.fromhex("0x1.a01a01ab7d3e9p-16"),
    float.fromhex("0x1.71ddf7c56a628p-19"),
    float.fromhex("0x1.27e4d015b8b99p-22"),
    float.fromhex("0x1.af5fc7f1077b6p-26"),
    float.fromhex("0x1.1f8610ff23e35p-29"),
)
# 2**r = 1 + r p(r); error 2**-28.2
EXP2_F32 = (
    float.fromhex("0x1.62e4300000000p-1"),
    float.fromhex("0x1.ebfbe00000000p-3"),
    float.fromhex("0x1.c6af760000000p-5"),
    float.fromhex("0x1.3b2a3e0000000p-7"),
    float.fromhex("0x1.5f0be60000000p-10"),
    float.fromhex("0x1.4430000000000p-13"),
)
# 2**r = 1 + r p(r); error 2**-59.7
EXP2_F64 = (
    float.fromhex("0x1.62e42fefa39efp-1"),
    float.fromhex("0x1.ebfbdff82c58fp-3"),
    float.fromhex("0x1.c6b08d704a1cdp-5"),
    float.fromhex("0x1.3b2ab6fba4d65p-7"),
    float.fromhex("0x1.5d87fe78767eep-10"),
    float.fromhex("0x1.430912f8b2888p-13"),
    float.fromhex("0x1.ffcbfd3bcff94p-17"),
    float.fromhex("0x1.62c0213e7766cp-20"),
    float.fromhex("0x1.b523526cc7b96p-24"),
    float.fromhex("0x1.e4d27f26bbd94p-28"),
    float.fromhex("0x1.ec3bd6a411ca8p-32"),
    float.fromhex("0x1.c047383f36911p-36"),
)
# log(1 + f) = f - f**2 / 2 + f**3 p(f); error 2**-27.3
LOG_F32 = (
    float.fromhex("0x1.5555540000000p-2"),
    float.fromhex("-0x1.0002200000000p-2"),
    float.fromhex("0x1.999ffc0000000p-3"),
    float.fromhex("-0x1.5473de0000000p-3"),
    float.fromhex("0x1.22dd140000000p-3"),
    float.fromhex("-0x1.0d7aaa0000000p-3"),
    float.fromhex("0x1.0541460000000p-3"),
    float.fromhex("-0x1.38a5a60000000p-4"),
)
# log((1 + s) / (1 - s)) = 2 s + s z p(z), z = s**2; error 2**-59.5
ATANH_F64 = (
    float.fromhex("0x1.5555555555592p-1"),
    float.fromhex("0x1.999999997ff05p-2"),
    float.fromhex("0x1.24924941e1ef0p-2"),
    float.fromhex("0x1.c71c5213f40b2p-3"),
    float.fromhex("0x1.74663d0294b82p-3"),
    float.fromhex("0x1.39a1e65d33ef5p-3"),
    float.fromhex("0x1.2f03d2ba33d6ap-3"),
)
# log((1 + s) / (1 - s)) = 2 s + s z (2/3 + z p(z)), z = s**2; error 2**-43.7
ATANH2_F32 = (
    float.fromhex("0x1.9999980000000p-2"),
    float.fromhex("0x1.2493b60000000p-2"),
    float.fromhex("0x1.c63d9c0000000p-3"),
    float.fromhex("0x1.9086fc0000000p-3"),
)
# log((1 + s) / (1 - s)) = 2 s + s z (2/3 + z p(z)), z = s**2; error 2**-73.4
ATANH2_F64 = (
    float.fromhex("0x1.9999999999996p-2"),
    float.fromhex("0x1.2492492492f4fp-2"),
    float.fromhex("0x1.c71c71c596fbcp-3"),
    float.fromhex("0x1.745d182911159p-3"),
    float.fromhex("0x1.3b1364df68f0dp-3"),
    float.fromhex("0x1.11206b6f69a90p-3"),
    float.fromhex("0x1.de3e15bffe6f6p-4"),
    float.fromhex("0x1.eac00aaa9ecb2p-4"),
)
# sin x = x + x z p(z), z = x**2; error 2**-32.5
SIN_F32 = (
    float.fromhex("-0x1.5555560000000p-3"),
    float.fromhex("0x1.1111760000000p-7"),
    float.fromhex("-0x1.a05bae0000000p-13"),
    float.fromhex("0x1.7cd1760000000p-19"),
)
# sin x = x + x z p(z), z = x**2; error 2**-63.2
SIN_F64 = (
    float.fromhex("-0x1.5555555555555p-3"),
    float.fromhex("0x1.1111111111068p-7"),
    float.fromhex("-0x1.a01a019ffe038p-13"),
    float.fromhex("0x1.71de3a331ea51p-19"),
    float.fromhex("-0x1.ae642b81dfca6p-26"),
    float.fromhex("0x1.610929b4c835dp-33"),
    float.fromhex("-0x1.9fae7ef00feedp-41"),
)
# cos x = 1 - z / 2 + z**2 p(z); error 2**-33.1
COS_F32 = (
    float.fromhex("0x1.55554a0000000p-5"),
    float.fromhex("-0x1.6c0c1c0000000p-10"),
    float.fromhex("0x1.99e2200000000p-16"),
)
# cos x = 1 - z / 2 + z**2 p(z); error 2**-64.1
COS_F64 = (
    float.fromhex("0x1.555555555554cp-5"),
    float.fromhex("-0x1.6c16c16c15217p-10"),
    float.fromhex("0x1.a01a019cbdcf4p-16"),
    float.fromhex("-0x1.27e4f811067f9p-22"),
    float.fromhex("0x1.1ee9efd51a0b0p-29"),
    float.fromhex("-0x1.8fb042664d7e4p-37"),
)
# atan x = x + x z p(z), z = x**2, |x| <= tan(pi/8); error 2**-30.4
ATAN_F32 = (
    float.fromhex("-0x1.55554a0000000p-2"),
    float.fromhex("0x1.9991ea0000000p-3"),
    float.fromhex("-0x1.23ba740000000p-3"),
    float.fromhex("0x1.b231c60000000p-4"),
    float.fromhex("-0x1.f32b740000000p-5"),
)
# atan x = x + x z p(z), z = x**2, |x| <= tan(pi/8); error 2**-65.9
ATAN_F64 = (
    float.fromhex("-0x1.5555555555555p-2"),
    float.fromhex("0x1.999999999988ap-3"),
    float.fromhex("-0x1.2492492488d3dp-3"),
    float.fromhex("0x1.c71c71c1cd435p-4"),
    float.fromhex("-0x1.745d1664fecbcp-4"),
    float.fromhex("0x1.3b13995ee1785p-4"),
    float.fromhex("-0x1.110f5c0ab46d1p-4"),
    float.fromhex("0x1.e1b68683db99ep-5"),
    float.fromhex("-0x1.ada5db64c6216p-5"),
    float.fromhex("0x1.7ca5a9375a2ccp-5"),
    float.fromhex("-0x1.3b3b34fa4767dp-5"),
    float.fromhex("0x1.9ff0dbb90c45bp-6"),
    float.fromhex("-0x1.2c85bdcf616dep-7"),
)
# asin x = x + x z p(z), z = x**2, |x| <= 1/2; error 2**-27.6
ASIN_F32 = (
    float.fromhex("0x1.5555c80000000p-3"),
    float.fromhex("0x1.3301f20000000p-4"),
    float.fromhex("0x1.747eaa0000000p-5"),
    float.fromhex("0x1.8c194e0000000p-6"),
    float.fromhex("0x1.59809e0000000p-5"),
)
# asin x = x + x z p(z), z = x**2, |x| <= 1/2; error 2**-59.8
ASIN_F64 = (
    float.fromhex("0x1.5555555555578p-3"),
    float.fromhex("0x1.333333332df24p-4"),
    float.fromhex("0x1.6db6db722a66dp-5"),
    float.fromhex("0x1.f1c71a8c0ee6cp-6"),
    float.fromhex("0x1.6e8bdfd8b195cp-6"),
    float.fromhex("0x1.1c49df0b19568p-6"),
    float.fromhex("0x1.ca212a675c8fdp-7"),
    float.fromhex("0x1.757866c4fd054p-7"),
    float.fromhex("0x1.6185e03908edfp-7"),
    float.fromhex("0x1.e1a57caf18c4cp-9"),
    float.fromhex("0x1.64eb401ad8f2ep-6"),
    float.fromhex("-0x1.59d6291ee243fp-6"),
    float.fromhex("0x1.0bda42c43efd9p-5"),
)
# erf x = x + x p(z), z = x**2, |x| <= 0.89; error 2**-25.9
ERF_F32 = (
    float.fromhex("0x1.06eba60000000p-3"),
    float.fromhex("-0x1.8126ee0000000p-2"),
    float.fromhex("0x1.ce1c0c0000000p-4"),
    float.fromhex("-0x1.b6a4ae0000000p-6"),
    float.fromhex("0x1.47d8ba0000000p-8"),
    float.fromhex("-0x1.3cb7dc0000000p-11"),
)
# erf x = x + x p(z), z = x**2, |x| <= 0.76; error 2**-56.2
ERF_F64 = (
    float.fromhex("0x1.06eba8214db69p-3"),
    float.fromhex("-0x1.812746b037a29p-2"),
    float.fromhex("0x1.ce2f21a046139p-4"),
    float.fromhex("-0x1.b82ce3139711fp-6"),
    float.fromhex("0x1.565bcd3996743p-8"),
    float.fromhex("-0x1.c02dbbbc94ae2p-11"),
    float.fromhex("0x1.f9a3f42ee5c3fp-14"),
    float.fromhex("-0x1.f4ddf3fc8887ap-17"),
    float.fromhex("0x1.ba23e5bfa6847p-20"),
    float.fromhex("-0x1.5d37daaedc2f6p-23"),
    float.fromhex("0x1.afb90491763f6p-27"),
)
# erfc t = p(t - 1)**4, 0.87 <= t <= 3.95; error 2**-25.6
ERF_TAIL_F32 = (
    float.fromhex("0x1.4271260000000p-1"),
    float.fromhex("-0x1.a974fa0000000p-2"),
    float.fromhex("0x1.1ac3880000000p-8"),
    float.fromhex("0x1.a0dac60000000p-5"),
    float.fromhex("-0x1.0312f20000000p-8"),
    float.fromhex("-0x1.53173c0000000p-8"),
    float.fromhex("0x1.1ff0e00000000p-10"),
    float.fromhex("0x1.afcfa00000000p-14"),
    float.fromhex("-0x1.2e7e0e0000000p-15"),
)
# e**(t**2) erfc(t) (1 + 2 t) = p(u), u = (t - 4) / (t + 4), t >= 0; error 2**-54.6
ERFCX_F64 = (
    float.fromhex("0x1.3ba5916e9fd7fp+0"),
    float.fromhex("-0x1.1df1ad154a28ep-3"),
    float.fromhex("0x1.f7f5df66fb89fp-7"),
    float.fromhex("0x1.16ecefcfa5379p-4"),
    float.fromhex("-0x1.9ddb23c3dcb3ap-4"),
    float.fromhex("0x1.7fee004e126eap-4"),
    float.fromhex("-0x1.0fb06dff469b2p-4"),
    float.fromhex("0x1.3079edf680c7ep-5"),
    float.fromhex("-0x1.0962385a5f83dp-6"),
    float.fromhex("0x1.49c67286c816dp-8"),
    float.fromhex("-0x1.8d4abc6343b0fp-11"),
    float.fromhex("-0x1.a1df260b7488cp-13"),
    float.fromhex("0x1.3be27ae2fca2ap-13"),
    float.fromhex("-0x1.99592f3eadcbfp-16"),
    float.fromhex("-0x1.78e893e0e4db2p-17"),
    float.fromhex("0x1.7f2834fdaa04cp-18"),
    float.fromhex("0x1.515669def7d45p-22"),
    float.fromhex("-0x1.bb1bbbfbc9163p-21"),
    float.fromhex("0x1.9b2abf0e93ec9p-25"),
    float.fromhex("0x1.dac813e20788bp-24"),
    float.fromhex("0x1.a79bce60ec60ap-28"),
    float.fromhex("-0x1.01b88f05fe0aap-26"),
    float.fromhex("-0x1.ab0de63785c74p-27"),
    float.fromhex("0x1.05253cfe0dc4ap-29"),
    float.fromhex("0x1.5ac6ea1cffcb7p-28"),
    float.fromhex("-0x1.560eee0e9aeeap-33"),
    float.fromhex("-0x1.b8bab0ef5673fp-31"),
)
# log gamma(2 + t) = t p(t), |t| <= 1/2; error 2**-56.0
LGAMMA_F64 = (
    float.fromhex("0x1.b0ee6072093cep-2"),
    float.fromhex("0x1.4a34cc4a60fa8p-2"),
    float.fromhex("-0x1.13e001a557547p-4"),
    float.fromhex("0x1.51322ac7d6f78p-6"),
    float.fromhex("-0x1.e404fc21dbadbp-8"),
    float.fromhex("0x1.7add6eb018330p-9"),
    float.fromhex("-0x1.38ac5bfbfefcfp-10"),
    float.fromhex("0x1.0b36ae88da658p-11"),
    float.fromhex("-0x1.d3fd6ae205d53p-13"),
    float.fromhex("0x1.a128238c14c2ep-14"),
    float.fromhex("-0x1.78d8f02ab5ad8p-15"),
    float.fromhex("0x1.57fe9a16172f3p-16"),
    float.fromhex("-0x1.3d4d5ff0854b4p-17"),
    float.fromhex("0x1.26cd938100e26p-18"),
    float.fromhex("-0x1.08f9178570a02p-19"),
    float.fromhex("0x1.e3f0fe6b6a0e7p-21"),
    float.fromhex("-0x1.38097030fabc4p-21"),
    float.fromhex("0x1.3e0c2873b4e51p-22"),
)
# log gamma(x) = (x - 1/2) log x - x + log(2 pi) / 2 + p(z) / x, z = x**-2, x >= 8; error 2**-57.6
STIRLING_F64 = (
    float.fromhex("0x1.5555555555555p-4"),
    float.fromhex("-0x1.6c16c16c069f2p-9"),
    float.fromhex("0x1.a01a009f4a20ep-11"),
    float.fromhex("-0x1.381200b50f426p-11"),
    float.fromhex("0x1.b83f2ad7be019p-11"),
    float.fromhex("-0x1.c42a50e287545p-10"),
    float.fromhex("-0x1.588bef48d2e42p-9"),
    float.fromhex("0x1.1fe4a4d27bc09p-3"),
)
# digamma(x) = log x - 1 / (2 x) - z p(z), z = x**-2, x >= 8; error 2**-57.6
DIGAMMA_F64 = (
    float.fromhex("0x1.5555555555555p-4"),
    float.fromhex("-0x1.111111110cf59p-7"),
    float.fromhex("0x1.041040e29e4a8p-8"),
    float.fromhex("-0x1.1110dd84d2773p-8"),
    float.fromhex("0x1.f055cdfebbb7ap-8"),
    float.fromhex("-0x1.55d6e2316ab3ep-6"),
    float.fromhex("0x1.24162678a82f6p-4"),
    float.fromhex("-0x1.1e611db1aadc8p-3"),
)
# trigamma(x) = 1 / x + z / 2 + z p(z) / x, z = x**-2, x >= 8; error 2**-56.6
TRIGAMMA_F64 = (
    float.fromhex("0x1.5555555555555p-3"),
    float.fromhex("-0x1.111111110f009p-5"),
    float.fromhex("0x1.86186174759dcp-6"),
    float.fromhex("-0x1.111101ba4a8bep-5"),
    float.fromhex("0x1.3646b85018c16p-4"),
    float.fromhex("-0x1.02532dccfe824p-2"),
    float.fromhex("0x1.1a999df4e405ep+0"),
    float.fromhex("-0x1.1ebbef03f80c0p+2"),
)
# fmt: on

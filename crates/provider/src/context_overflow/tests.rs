//! The errors of servers, whole, as they were reported publicly.

use super::*;
use crate::ProviderErrorKind;
use crate::upstream_error::UpstreamError;

fn kind(status: u16, body: &str) -> ProviderErrorKind {
    UpstreamError::parse(body).into_error(Some(status), None).kind
}

#[test]
fn the_patterns_are_regular_expressions() {
    assert!(TABLE.is_some() && GUARD.is_some());
    assert!(ROWS.iter().all(|row| !row.servers.is_empty()));
}

const BODIES: &[(&str, u16, &str)] = &[
    (
        "vLLM",
        400,
        r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","param":null,"code":400}"#,
    ),
    (
        "vLLM, newer",
        400,
        r#"{"error":{"message":"This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens, for a total of at least 262145 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=262145)","type":"BadRequestError","param":"input_tokens","code":400}}"#,
    ),
    (
        "vLLM, newest",
        400,
        r#"{"error":{"message":"Input length (11680) exceeds model's maximum context length (4096).","type":"BadRequestError","param":null,"code":400}}"#,
    ),
    (
        "vLLM, the engine",
        400,
        r#"{"object":"error","message":"The decoder prompt (length 9000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens.","type":"BadRequestError","code":400}"#,
    ),
    (
        "vLLM, with the answer",
        400,
        r#"{"error":{"message":"You passed 99073 input tokens and requested 32000 output tokens. However, the model's context length is only 131072 tokens, resulting in a maximum input length of 99072 tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=99073)","type":"BadRequestError","param":"input_tokens","code":400}}"#,
    ),
    (
        "vLLM, with pictures",
        400,
        r#"{"error":{"message":"The prompt (total length 25938) is too long to fit into the model (context length 4096). Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.","type":"BadRequestError","param":null,"code":400}}"#,
    ),
    (
        "SGLang",
        400,
        r#"{"object":"error","message":"The input (9000 tokens) is longer than the model's context length (8192 tokens).","type":"BadRequestError","param":null,"code":400}"#,
    ),
    (
        "SGLang, the scheduler",
        400,
        r#"{"object":"error","message":"Input length (9000 tokens) exceeds the maximum allowed length (8188 tokens). Use a shorter input or enable --allow-auto-truncate.","type":"BadRequestError","code":400}"#,
    ),
    (
        "llama.cpp",
        400,
        r#"{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}"#,
    ),
    (
        "llama.cpp, while it generates",
        500,
        r#"{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}"#,
    ),
    (
        "Ollama",
        400,
        r#"{"error":{"message":"the input length exceeds the context length","type":"invalid_request_error","param":null,"code":null}}"#,
    ),
    (
        "Ollama, its cloud",
        400,
        r#"{"error":"prompt too long; exceeded max context length by 1204 tokens (ref: 0)"}"#,
    ),
    (
        "LM Studio",
        400,
        r#"{"error":"Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}"#,
    ),
    ("LM Studio, newer", 400, r#"{"error":"Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"}"#),
    (
        "LM Studio, newest",
        400,
        r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input."}"#,
    ),
    (
        "LM Studio, while it generates",
        400,
        r#"{"error":"Reached context length of 4096 tokens with model (arch: qwen3vlmoe) that does not currently support mid-generation context overflow."}"#,
    ),
    (
        "TGI",
        422,
        r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`","error_type":"validation"}"#,
    ),
    (
        "TGI, older",
        422,
        r#"{"error":"Input validation error: `inputs` must have less than 1024 tokens. Given: 1168","error_type":"validation"}"#,
    ),
    (
        "TGI, without the words before it",
        422,
        r#"{"error":"`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`"}"#,
    ),
    (
        "Triton with TensorRT-LLM",
        500,
        r#"{"error":"Encountered an error when fetching new request: Prompt length (5056) exceeds maximum input length (2048)"}"#,
    ),
    (
        "TensorRT-LLM",
        400,
        r#"{"object":"error","message":"The sum of prompt length (9351.0), query length (0) should not exceed max_num_tokens (8192)","type":"BadRequestError","param":null,"code":400}"#,
    ),
    (
        "TabbyAPI",
        400,
        r#"{"error":{"message":"context/cache: Job requires 1027 pages (only 1024 available) and cannot be enqueued.","type":"invalid_request_error"}}"#,
    ),
    (
        "OpenAI",
        400,
        r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 140000 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
    ),
    (
        "OpenAI, newer",
        400,
        r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":null}}"#,
    ),
    (
        "Azure",
        400,
        r#"{"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
    ),
    (
        "Anthropic",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}}"#,
    ),
    (
        "Anthropic, with the answer",
        400,
        r#"{"error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 170636 + 34048 > 200000, decrease input length or `max_tokens` and try again"}}"#,
    ),
    (
        "Gemini",
        400,
        r#"[{"error":{"code":400,"message":"The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).","errors":[{"message":"x","domain":"global","reason":"badRequest"}],"status":"INVALID_ARGUMENT"}}]"#,
    ),
    (
        "Vertex AI",
        400,
        r#"[{"error":{"code":400,"message":"Unable to submit request because the input token count is 1200293 but the model only supports up to 1048576.","status":"INVALID_ARGUMENT"}}]"#,
    ),
    (
        "Mistral",
        400,
        r#"{"object":"error","message":"Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context length","type":"invalid_request_error","param":null,"code":"3051"}"#,
    ),
    (
        "xAI",
        400,
        r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 140000 tokens."}"#,
    ),
    (
        "DeepSeek",
        400,
        r#"{"error":{"message":"This model's maximum context length is 131072 tokens. However, you requested 140000 tokens (140000 in the messages, 0 in the completion). Please reduce the length of the messages or completion.","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
    ),
    (
        "Groq",
        400,
        r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
    ),
    (
        "Cerebras",
        400,
        r#"{"message":"Please reduce the length of the messages or completion. Current length is 8905 while limit is 8192","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}"#,
    ),
    (
        "Together",
        422,
        r#"{"error":{"message":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 `max_new_tokens`","type":"invalid_request_error","param":null,"code":null}}"#,
    ),
    (
        "Fireworks",
        400,
        r#"{"error":{"object":"error","type":"invalid_request_error","code":"invalid_request_error","message":"The prompt is too long: 140000, model maximum context length: 131071"}}"#,
    ),
    (
        "OpenRouter",
        400,
        r#"{"error":{"message":"This endpoint's maximum context length is 204800 tokens. However, you requested about 309977 tokens (309977 of text input). Please reduce the length of either one.","code":400}}"#,
    ),
    (
        "OpenRouter, in the words of the provider",
        400,
        r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"Input length 131393 exceeds the maximum allowed input length of 131040 tokens.\"}}","provider_name":"Poolside"}}}"#,
    ),
    (
        "Cohere",
        400,
        r#"{"message":"too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs. The limit for this model is 128000 tokens."}"#,
    ),
    ("Bedrock", 400, r#"{"message":"Input is too long for requested model."}"#),
    (
        "Bedrock, Titan",
        400,
        r#"{"message":"400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: 9000"}"#,
    ),
    (
        "Moonshot",
        400,
        r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)","type":"invalid_request_error"}}"#,
    ),
    ("Zhipu", 400, r#"{"error":{"code":"1261","message":"Prompt exceeds max length"}}"#),
    ("Zhipu, by its code", 400, r#"{"error":{"code":"1261","message":"Prompt 超长"}}"#),
    (
        "Alibaba Qwen",
        400,
        r#"{"error":{"code":"invalid_parameter_error","param":null,"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]","type":"invalid_request_error"},"id":"x"}"#,
    ),
    (
        "MiniMax",
        400,
        r#"{"type":"error","error":{"type":"bad_request_error","message":"invalid params, context window exceeds limit (2013)","http_code":"400"},"request_id":"x"}"#,
    ),
    (
        "NVIDIA NIM",
        400,
        r#"{"object":"error","message":"This model's maximum context length is 8192 tokens. However, you requested 9000 tokens in the messages, Please reduce the length of the messages.","type":"BadRequestError","param":null,"code":400}"#,
    ),
    (
        "LiteLLM",
        400,
        r#"{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: upstream refused","type":"invalid_request_error","param":null,"code":"400"}}"#,
    ),
    (
        "LocalAI",
        500,
        r#"{"error":{"code":500,"message":"rpc error: code = Internal desc = the request exceeds the available context size. try increasing the context size","type":""}}"#,
    ),
    (
        "llama-cpp-python",
        400,
        r#"{"error":{"message":"Requested tokens (9000) exceed context window of 4096","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
    ),
    (
        "llama-cpp-python, by its words",
        500,
        r#"{"error":{"message":"Requested tokens (9000) exceed context window of 4096","type":"internal_server_error","code":null}}"#,
    ),
    (
        "MLX servers",
        400,
        r#"{"detail":"Prompt too long: 33333 tokens exceeds max context window of 32768 tokens"}"#,
    ),
    (
        "Replicate",
        422,
        r#"{"detail":"Your input is too long. Max input length is 4096 tokens, but you supplied 5441 tokens."}"#,
    ),
    (
        "DeepInfra",
        400,
        r#"{"detail":{"error":"Requested input length 160000 exceeds maximum input length 131072"}}"#,
    ),
    (
        "DeepInfra, with the answer",
        422,
        r#"{"detail":{"error":"inputs tokens + max_new_tokens must be <= 4097. Given: 5000 inputs tokens and 512 max_new_tokens"}}"#,
    ),
    (
        "Perplexity",
        400,
        r#"{"error":{"message":"The total length of all messages is too long.","type":"invalid_message","code":400}}"#,
    ),
    (
        "watsonx",
        400,
        r#"{"errors":[{"code":"invalid_input_argument","message":"Invalid input argument for Model 'x': the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model","more_info":"y"}],"trace":"z","status_code":400}"#,
    ),
    (
        "GitHub Copilot",
        400,
        r#"{"error":{"message":"prompt token count of 140000 exceeds the limit of 128000","code":"model_max_prompt_tokens_exceeded"}}"#,
    ),
    (
        "GitHub Models",
        413,
        r#"{"error":{"code":"tokens_limit_reached","message":"Request body too large for gpt-4o-mini model. Max size: 8000 tokens.","details":"Request body too large for gpt-4o-mini model. Max size: 8000 tokens."}}"#,
    ),
    (
        "GitHub Models, by its words",
        413,
        r#"{"error":{"message":"Request body too large for gpt-4o-mini model. Max size: 8000 tokens."}}"#,
    ),
    (
        "Cloudflare",
        413,
        r#"{"errors":[{"message":"AiError: The estimated number of input and maximum output tokens (24016) exceeded this model context window limit (24000).","code":5021}],"success":false,"result":{},"messages":[]}"#,
    ),
];

#[test]
fn every_servers_overflow_is_recognised() {
    for (server, status, body) in BODIES {
        assert_eq!(kind(*status, body), ProviderErrorKind::ContextLength, "{server}");
        // In a stream, where no status comes with it.
        let streamed = UpstreamError::parse(body).into_error(None, None);
        assert_eq!(streamed.kind, ProviderErrorKind::ContextLength, "{server}, in a stream");
    }
    let plain = UpstreamError::parse("ValueError: prompt is too long: 9 tokens > 8 maximum");
    assert_eq!(plain.into_error(None, None).kind, ProviderErrorKind::ContextLength);
}

#[test]
fn rate_limits_and_refused_lengths_of_answers_are_none() {
    let rows = [
        (
            429,
            r#"{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        ),
        (
            413,
            r#"{"error":{"message":"Request too large for model `kimi-k2` on tokens per minute (TPM): Limit 10000, Requested 21247, please reduce the length of the messages and try again.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        ),
        (400, r#"{"message":"ThrottlingException: Too many tokens, please wait before trying again."}"#),
        (429, r#"{"error":{"message":"prompt is too long for your maximum context length"}}"#),
        (400, r#"{"error":{"message":"Rate limit reached: maximum context length per day"}}"#),
        (
            400,
            r#"{"error":{"message":"max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.","type":"invalid_request_error","param":"max_tokens","code":"invalid_value"}}"#,
        ),
        (
            400,
            r#"{"object":"error","message":"'max_tokens' or 'max_completion_tokens' is too large: 100000. This model's maximum context length is 4096 tokens and your request has 20 input tokens (100000 > 4096 - 20).","type":"BadRequestError","param":null,"code":400}"#,
        ),
        (
            400,
            r#"{"error":{"message":"`max_tokens` must be less than or equal to `16384`, the maximum value for `max_tokens` is less than the `context_window` for this model","type":"invalid_request_error"}}"#,
        ),
        (
            422,
            r#"{"error":"Invalid request: `max_new_tokens` must be less than the maximum context length","error_type":"validation"}"#,
        ),
        (
            400,
            r#"{"error":{"type":"invalid_request_error","message":"max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for this model"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Invalid max_tokens value, the valid range of max_tokens is [1, 8192]","type":"invalid_request_error"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]","type":"invalid_request_error"}}"#,
        ),
        (500, r#"{"error":{"code":500,"message":"the server failed","type":"server_error"}}"#),
    ];
    for (status, body) in rows {
        assert_eq!(kind(status, body), ProviderErrorKind::Status(status), "{body}");
    }
}

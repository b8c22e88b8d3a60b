# LiteLLM proxy; /v1/responses bridged to chat completions (use_chat_completions_api). WORKERS sets its processes.
venv=$PEERS_DIR/litellm
case $1 in
info) echo "version=$("$venv/bin/pip" list 2>/dev/null | awk '$1 == "litellm" {print $2}')"; echo "workers=${WORKERS:-1}"; echo "mcp_url=litellm_proxy"; echo "header=Authorization: Bearer sk-bench" ;;
install) python3 -m venv "$venv" && "$venv/bin/pip" install -q 'litellm[proxy]' ;;
start)
  export LITELLM_MASTER_KEY=sk-bench LITELLM_LOCAL_MODEL_COST_MAP=True LITELLM_LOG=ERROR NO_DOCS=True
  {
    echo "model_list:"
    for m in text-20 text-100 text-200-5000us text-50-100000us tool-1 tool-2 loop-3 loop-10 echo err-500 err-429 cut-5; do
      printf -- '- model_name: %s\n  litellm_params:\n    model: openai/%s\n    api_base: http://127.0.0.1:%s/v1\n    api_key: none\n    use_chat_completions_api: true\n' "$m" "$m" "$3"
    done
    printf 'litellm_settings:\n  num_retries: 0\n  telemetry: false\nrouter_settings:\n  disable_cooldowns: true\n'
    printf 'mcp_servers:\n  mock:\n    url: http://127.0.0.1:%s/mcp\n    transport: http\n' "$3"
  } > config.yaml
  exec "$venv/bin/litellm" --config config.yaml --host 127.0.0.1 --port "$2" --num_workers "${WORKERS:-1}" --telemetry False ;;
esac

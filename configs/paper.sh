#!/usr/bin/env bash
# The logs that configs/paper.yaml compares, by the commands of lm-evaluation-harness (pip install "lm_eval[vllm]").
#
#     bash configs/paper.sh            writes logs/base and logs/tuned below the current folder; one that is there stays
#     forgetwatch study configs/paper.yaml -o runs/paper
#
# Base models answer scored tasks after five worked examples, tuned models without, in their chat template; of written
# tasks both see the examples that the task has (MMLU four, BIG-Bench Hard three). Written answers of tuned models are sampled
# three times (temperature 0.6, top-p 0.95, seeds 0, 1 and 2); those that are scored by likelihood are the same each
# time, so that their logs are copied. The harness has no SaladBench (github.com/OpenSafetyLab/SALAD-BENCH) and no MCTest
# (mattr1.github.io/mctest): logs of these, in any format of docs/how-to/logs.md, may be put beside the others.
# GPUS is the number of GPUs that hold a model of 32B; LIMIT is a number of questions a task, for a trial.
set -euo pipefail

SCORED=commonsense_qa,piqa,hellaswag,social_iqa,arc_challenge,arc_easy,truthfulqa_mc1,leaderboard_musr,gpqa_diamond_n_shot
WRITTEN=mmlu_flan_cot_fewshot,bbh_cot_fewshot,ifeval
LOGS=${LOGS:-logs}

answers() { # MODEL FOLDER scored|written TOKENS [OPTION ...]
  local model=$1 folder=$2 kind=$3 tokens=$4 tasks=$SCORED part
  shift 4
  part="$folder/$kind.part"
  [ "$kind" = scored ] || tasks=$WRITTEN
  [ -e "$folder/$kind.done" ] && return
  rm -rf "$part" # of a run that was killed
  lm_eval --model vllm --tasks "$tasks" --batch_size auto --log_samples --output_path "$part" \
    --model_args "pretrained=$model,tensor_parallel_size=${GPUS:-1},max_model_len=$tokens" \
    ${LIMIT:+--limit "$LIMIT"} "$@"
  mv "$part"/*/samples_*.jsonl "$folder" # one folder has all tasks of a model
  rm -r "$part" && touch "$folder/$kind.done"
}

base() { # MODEL TOKENS
  local folder="$LOGS/base/$1"
  mkdir -p "$folder"
  answers "$1" "$folder" scored "$2" --num_fewshot 5
  answers "$1" "$folder" written "$2" --gen_kwargs temperature=0
}

tuned() { # MODEL TOKENS
  local seed folder="$LOGS/tuned/$1" options
  mkdir -p "$folder"/seed-{0,1,2}
  answers "$1" "$folder/seed-0" scored "$2" --apply_chat_template
  for seed in 1 2; do
    [ -e "$folder/seed-$seed/scored.done" ] || cp "$folder"/seed-0/* "$folder/seed-$seed"
  done
  options="do_sample=true,temperature=0.6,top_p=0.95,max_gen_toks=$(($2 - 2048))"
  for seed in 0 1 2; do
    answers "$1" "$folder/seed-$seed" written "$2" --apply_chat_template --seed "$seed" --gen_kwargs "$options"
  done
}

base Qwen/Qwen2.5-14B 32768
base Qwen/Qwen2.5-32B 32768
base Qwen/Qwen2.5-3B 32768
base Qwen/Qwen2.5-7B 32768
base Qwen/Qwen2.5-Coder-14B 32768
base Qwen/Qwen2.5-Coder-32B 32768
base Qwen/Qwen2.5-Coder-3B 32768
base Qwen/Qwen2.5-Coder-7B 32768
base Qwen/Qwen2.5-Math-7B 4096
base meta-llama/Llama-3.1-8B 32768

tuned GAIR/LIMO 32768
tuned GAIR/LIMO-v2 32768
tuned PrimeIntellect/INTELLECT-2 32768
tuned Qwen/QwQ-32B 32768
tuned Qwen/Qwen2.5-14B-Instruct 32768
tuned Qwen/Qwen2.5-32B-Instruct 32768
tuned Qwen/Qwen2.5-3B-Instruct 32768
tuned Qwen/Qwen2.5-7B-Instruct 32768
tuned Qwen/Qwen2.5-Coder-14B-Instruct 32768
tuned Qwen/Qwen2.5-Coder-32B-Instruct 32768
tuned Qwen/Qwen2.5-Coder-3B-Instruct 32768
tuned Qwen/Qwen2.5-Coder-7B-Instruct 32768
tuned Qwen/Qwen2.5-Math-7B-Instruct 4096
tuned deepseek-ai/DeepSeek-R1-Distill-Llama-8B 32768
tuned deepseek-ai/DeepSeek-R1-Distill-Qwen-32B 32768
tuned deepseek-ai/DeepSeek-R1-Distill-Qwen-7B 32768
tuned meta-llama/Llama-3.1-8B-Instruct 32768
tuned nvidia/OpenCodeReasoning-Nemotron-1.1-14B 32768
tuned nvidia/OpenCodeReasoning-Nemotron-1.1-7B 32768
tuned nvidia/OpenMath2-Llama3.1-8B 32768
tuned open-thoughts/OpenThinker-7B 32768
tuned open-thoughts/OpenThinker2-32B 32768
tuned open-thoughts/OpenThinker3-7B 32768
tuned simplescaling/s1.1-14B 32768
tuned simplescaling/s1.1-32B 32768
tuned simplescaling/s1.1-7B 32768

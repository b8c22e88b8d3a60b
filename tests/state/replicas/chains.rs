//! Chains of responses whose turns go to one replica after the other.

use serde_json::{Value, json};

use super::{Fleet, asked, id_of, read};

fn turn(number: usize, previous: &Value) -> Value {
    json!({"model": "test-model", "input": format!("question {number}"), "previous_response_id": previous})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_turns_of_a_chain_go_to_alternating_replicas() {
    let fleet = Fleet::new().await;
    let replicas = fleet.two().await;
    let (mut previous, mut expected) = (Value::Null, Vec::new());
    for number in 0..6 {
        let (here, there) = (&replicas[number % 2], &replicas[(number + 1) % 2]);
        fleet.upstream.text(&format!("answer {number}"));
        let body = turn(number, &previous);
        // Whatever way a turn was made, the next one has it.
        let response =
            if number % 3 == 0 { here.stream(body).await.response } else { here.create(body).await };
        expected.push(format!("question {number}"));
        assert_eq!(asked(&fleet.upstream), expected, "turn {number}");
        expected.push(format!("answer {number}"));
        assert_eq!(read(there, &id_of(&response)).await, response, "the other has it at once");
        assert_eq!(response["previous_response_id"], previous);
        previous = response["id"].clone();
    }
}

/// A turn that was made in the background may have been made anywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_background_turn_is_a_part_of_the_chain() {
    let fleet = Fleet::new().await;
    let [front, back] = fleet.front_and_back().await;
    fleet.upstream.text("one");
    let first = back.create(turn(1, &Value::Null)).await;
    fleet.upstream.text("two");
    let mut body = turn(2, &first["id"]);
    body["background"] = json!(true);
    let second = id_of(&front.create(body).await);
    super::becomes(&front, &second, "completed").await;
    fleet.upstream.text("three");
    front.create(turn(3, &json!(second))).await;
    assert_eq!(asked(&fleet.upstream), ["question 1", "one", "question 2", "two", "question 3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_replica_deletes_is_gone_at_the_other() {
    let fleet = Fleet::new().await;
    let [one, two] = fleet.two().await;
    let first = one.create(turn(1, &Value::Null)).await;
    let second = two.create(turn(2, &first["id"])).await;
    assert_eq!(two.delete(&format!("/v1/responses/{}", id_of(&first))).await.status, 200);
    assert_eq!(one.get(&format!("/v1/responses/{}", id_of(&first))).await.status, 404);
    one.refuse(turn(3, &first["id"]), 400, "previous_response_not_found").await;
    assert_eq!(one.get("/v1/responses").await.body["data"][0]["id"], second["id"]);
}

/// What clients carry themselves is sealed with the keys that the replicas share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_replica_has_sealed_is_opened_by_the_other() {
    let fleet = Fleet::new().await;
    let [one, two] = fleet.two().await;
    fleet.upstream.text("The summary.");
    let said =
        json!([{"role": "user", "content": "Build a boat."}, {"role": "assistant", "content": "Planks."}]);
    let compact = json!({"model": "test-model", "input": said});
    let compacted = one.post("/v1/responses/compact", &compact).await.body;
    assert!(!compacted.to_string().contains("The summary."), "{compacted:#}");
    let mut input = compacted["output"].as_array().unwrap().clone();
    input.push(json!({"role": "user", "content": "And a mast?"}));
    two.create(json!({"model": "test-model", "input": input, "store": false})).await;
    let asked = asked(&fleet.upstream).concat();
    assert!(asked.contains("The summary.") && asked.contains("And a mast?"), "{asked}");
}

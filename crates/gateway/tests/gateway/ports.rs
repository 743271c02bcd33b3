//! Another port of an endpoint than its own: the front of a data-parallel engine.

use pointsman_config::Faults;
use pointsman_gateway::GatewayOptions;
use pointsman_plugins::DefaultProfile;

use crate::support::*;

fn activate(gateway: &Running, document: &str) {
    let mut faults = Faults::new();
    let compiled = gateway.pool.recompile(document.as_bytes(), true, DefaultProfile::Serve, &mut faults);
    gateway.pool.activate(compiled.expect("a good configuration"));
}

fn document(port: u16) -> String {
    format!(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n- type: random-picker\n\
         - {{type: data-parallel-profile-handler, parameters: {{primaryPort: {port}}}}}\nschedulingProfiles:\n\
         - {{name: default, plugins: [{{pluginRef: queue-scorer}}, {{pluginRef: random-picker}}]}}\n"
    )
}

#[tokio::test]
async fn e10_a_named_port_gets_the_request_and_the_rank_in_a_header() {
    let answer = |_: &Received| Reply::Write(ok("application/json", "{}"));
    let front = Engine::start(answer).await;
    let ranks = [Engine::start(answer).await, Engine::start(answer).await];
    let addresses = ranks.each_ref().map(|r| r.address);
    let gateway = Running::start(&addresses, GatewayOptions::default()).await;
    activate(&gateway, &document(front.address.port()));
    let forged = "x-data-parallel-host-port: 6.6.6.6:1\r\nx-prefiller-host-port: 6.6.6.6:1\r\n";
    let asked = 8;
    for _ in 0..asked {
        let answer = gateway.ask(post_with("/v1/chat/completions", forged, chat_body("x"))).await;
        assert_eq!(answer.status(), 200, "{}", answer.head);
    }
    assert_eq!((front.count(), ranks[0].count(), ranks[1].count()), (asked, 0, 0));
    for received in front.received.lock().iter() {
        assert_eq!(received.header("host"), [front.address.to_string()]);
        let rank = received.header("x-data-parallel-host-port");
        assert!(rank.len() == 1 && addresses.iter().any(|a| a.to_string() == rank[0]), "{rank:?}");
        assert!(!received.head.contains("6.6.6.6"), "{}", received.head);
    }

    // Connections to the front are idle now; none of them may serve a request to a rank.
    gateway.settled().await;
    activate(&gateway, "");
    for _ in 0..asked {
        assert_eq!(gateway.ask(chat("x")).await.status(), 200);
    }
    assert_eq!((front.count(), ranks[0].count() + ranks[1].count()), (asked, asked));
    for rank in &ranks {
        for received in rank.received.lock().iter() {
            assert_eq!(received.header("host"), [rank.address.to_string()]);
            assert!(received.header("x-data-parallel-host-port").is_empty());
        }
    }

    // And the other way round.
    gateway.settled().await;
    activate(&gateway, &document(front.address.port()));
    for _ in 0..asked {
        assert_eq!(gateway.ask(chat("x")).await.status(), 200);
    }
    assert_eq!(front.count(), 2 * asked);
}

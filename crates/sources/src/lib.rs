//! What feeds the fleet: scraping, health checks, endpoint discovery.

package certificate

const GatherFor = gatherFor

// Writes a file of vectors; see ../README.md.

import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

import com.sankuai.inf.leaf.snowflake.SnowflakeIDGenImpl;
import sun.misc.Unsafe;

public class Vectors {
    static final long EPOCH = 1288834974657L;
    /** Milliseconds after the epoch, up to the end of 41 bits. */
    static final long[] OFFSETS = {
        3, 1_000, 86_400_000, 1L << 31, (1L << 35) + 5, (1L << 38) - 2, 1L << 39, 500_000_000_000L,
        1L << 40, 1_500_000_000_001L, 2_000_000_000_000L, (1L << 41) - 2,
    };

    /** Leaf's generator with a clock that stands still. */
    static class Generator extends SnowflakeIDGenImpl {
        long now;

        Generator() {
            super(null, 0);
        }

        @Override protected long timeGen() {
            return now;
        }
    }

    /** Makes a generator without the constructor, which asks ZooKeeper for the worker id. */
    static Generator generator(long worker, long now) throws Exception {
        Field unsafe = Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        Generator generator = (Generator) ((Unsafe) unsafe.get(null)).allocateInstance(Generator.class);
        generator.now = now;
        set(generator, "twepoch", EPOCH);
        set(generator, "workerId", worker);
        set(generator, "lastTimestamp", -1);
        return generator;
    }

    static void set(Generator generator, String name, long value) throws Exception {
        Field field = SnowflakeIDGenImpl.class.getDeclaredField(name);
        field.setAccessible(true);
        field.setLong(generator, value);
    }

    public static void main(String[] args) throws Exception {
        List<String> ids = new ArrayList<>();
        for (int i = 0; i < OFFSETS.length; i++) {
            Generator generator = generator(1023 - i * 93, EPOCH + OFFSETS[i]);
            for (int n = 0; n < 4; n++) {
                long id = generator.get("key").getId();
                // The formulas of LeafMonitorController.decodeSnowflakeId.
                ids.add(String.format(
                    "    {\"id\": \"%d\", \"unix_ms\": %d, \"data_center\": 0, \"worker\": %d, \"sequence\": %d}",
                    id, (id >> 22) + EPOCH, (id >> 12) ^ (id >> 22 << 10), id ^ (id >> 12 << 12)));
            }
        }
        Files.writeString(Path.of(args[0]).resolve("leaf.json"), String.format(
            "{\n  \"library\": \"%s\",\n  \"version\": \"%s\",\n  \"layout\": \"%s\",\n  \"fields\": \"%s\",\n  \"ids\": [\n%s\n  ]\n}\n",
            "com.sankuai.inf.leaf:leaf-core", "1.0.1", "leaf", "LeafMonitorController.decodeSnowflakeId",
            String.join(",\n", ids)));
    }
}
